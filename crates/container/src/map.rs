//! Read-only memory maps of input files. With the handler in `map/fault.rs` and the files of `map/sparse.rs`,
//! which are filled while mapped, this is the only unsafe code of this crate.
#![expect(unsafe_code, reason = "mapping a file and giving its pages back are unsafe in memmap2")]

mod fault;
mod slots;
mod sparse;

use std::{
    fmt, fs, io,
    ops::{Deref, Range},
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

pub use fault::{exit_on_bus_error, remove_temporary_files};
pub(crate) use fault::{know_resumable_file, know_temporary_file};
pub(crate) use slots::Held;
pub use sparse::SparseFile;

use crate::Error;

/// The bytes of an input file, mapped or in memory, read-only and cheap to clone. Clones share one map.
#[derive(Clone)]
pub struct Mapped {
    bytes: Arc<Bytes>,
}

enum Bytes {
    Map(Map),
    Held(Vec<u8>),
}

struct Map {
    /// Lets a bus error name this file. Dropped before the map.
    _known: Option<Held>,
    map: memmap2::Mmap,
    path: PathBuf,
    identity: Identity,
}

/// Identity of a file's content that the system provides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Identity {
    n_bytes: u64,
    modified: Option<SystemTime>,
    #[cfg(unix)]
    place: (u64, u64),
}

impl Identity {
    fn new(metadata: &fs::Metadata) -> Identity {
        Identity {
            n_bytes: metadata.len(),
            modified: metadata.modified().ok(),
            #[cfg(unix)]
            place: {
                use std::os::unix::fs::MetadataExt;
                (metadata.dev(), metadata.ino())
            },
        }
    }

    /// Description of the change from `self` to `now`; `None` if there is no change.
    fn change(&self, now: &Identity) -> Option<String> {
        #[cfg(unix)]
        if self.place != now.place {
            return Some("it was replaced by another file".to_owned());
        }
        if self.n_bytes != now.n_bytes {
            return Some(format!("it had {} bytes and now has {}", self.n_bytes, now.n_bytes));
        }
        (self.modified != now.modified).then(|| "it was modified".to_owned())
    }
}

/// Upcoming use of a range of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Advice {
    /// Read once from front to back: read far ahead, drop used pages early.
    Sequential,
    /// Needed soon: start reading now.
    WillNeed,
    /// No longer needed: the pages no longer count as this process's memory. Reading them again works and
    /// costs a page fault.
    DoneWith,
}

impl Mapped {
    /// Maps the file at `path`.
    ///
    /// # Errors
    /// Errors of opening or mapping; [`io::ErrorKind::InvalidInput`] if `path` is not a plain file (a pipe
    /// would block, a folder cannot be mapped).
    pub fn open(path: &Path) -> io::Result<Mapped> {
        if !fs::metadata(path)?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        let file = fs::File::open(path)?;
        // Before mapping, so that every later change is detected.
        let identity = Identity::new(&file.metadata()?);
        // An empty map is an error on some systems.
        if identity.n_bytes == 0 {
            return Ok(Mapped::from(Vec::new()));
        }
        // SAFETY: the map is read-only and private to this process, and is only ever handed out as `&[u8]`.
        // The file must not be shortened or rewritten while it is mapped; no program can prevent that on a
        // shared file system, and every mapping reader (the reference included) relies on it. Our own output
        // goes to a temporary file that is renamed, so we never write into a mapped file. If another program
        // does, a shorter file ends the process (`exit_on_bus_error`) and a rewritten one is found by
        // `check_unchanged` before an output gets its name.
        let map = unsafe { memmap2::Mmap::map(&file)? };
        let known = fault::know_map(&map, path);
        Ok(Mapped {
            bytes: Arc::new(Bytes::Map(Map { _known: known, map, path: path.to_owned(), identity })),
        })
    }

    /// Checks that the file at the path is still the mapped one and was not modified: device and inode,
    /// length and modification time. Bytes in memory never change.
    ///
    /// # Errors
    /// [`Error::Changed`].
    pub fn check_unchanged(&self) -> Result<(), Error> {
        let Bytes::Map(Map { path, identity, .. }) = &*self.bytes else { return Ok(()) };
        let change = match fs::metadata(path) {
            Ok(now) => identity.change(&Identity::new(&now)),
            Err(error) => Some(error.to_string()),
        };
        change.map_or(Ok(()), |change| Err(Error::Changed { path: path.clone(), change }))
    }

    /// Path, length and modification time of the mapped file when it was opened. `None` for bytes in memory.
    pub fn origin(&self) -> Option<(&Path, u64, Option<SystemTime>)> {
        match &*self.bytes {
            Bytes::Map(Map { path, identity, .. }) => Some((path, identity.n_bytes, identity.modified)),
            Bytes::Held(_) => None,
        }
    }

    /// Advises the system about the use of the bytes in `range`.
    ///
    /// Advice is a hint: a range is truncated at the end of the file; errors, unsupported systems and bytes
    /// in memory are ignored.
    pub fn advise(&self, advice: Advice, range: Range<usize>) {
        let Bytes::Map(Map { map, .. }) = &*self.bytes else { return };
        advise(map, advice, range);
    }
}

#[cfg(unix)]
fn advise(map: &memmap2::Mmap, advice: Advice, range: Range<usize>) {
    let end = range.end.min(map.len());
    if range.start >= end {
        return;
    }
    let len = end - range.start;
    // A failed hint changes no result, so errors are ignored.
    let _ = match advice {
        Advice::Sequential => map.advise_range(memmap2::Advice::Sequential, range.start, len),
        Advice::WillNeed => map.advise_range(memmap2::Advice::WillNeed, range.start, len),
        Advice::DoneWith => {
            // Ranges come in ascending order, so a page with the end of this range and the start of the next
            // is left to the next, which rounds its start down.
            let page = rustix::param::page_size();
            let start = range.start / page * page;
            let end = if end == map.len() { end } else { end / page * page };
            if start >= end {
                return;
            }
            // SAFETY: on a map of a file that is never written through, dropped pages are read again from the
            // file, so the bytes of live references stay the same. `start` and `end` lie within the map,
            // checked above.
            unsafe { map.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, start, end - start) }
        }
    };
}

#[cfg(not(unix))]
fn advise(_map: &memmap2::Mmap, _advice: Advice, _range: Range<usize>) {}

impl From<Vec<u8>> for Mapped {
    /// Bytes that are already in memory.
    fn from(bytes: Vec<u8>) -> Mapped {
        Mapped { bytes: Arc::new(Bytes::Held(bytes)) }
    }
}

impl Deref for Mapped {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &*self.bytes {
            Bytes::Map(Map { map, .. }) => map,
            Bytes::Held(bytes) => bytes,
        }
    }
}

impl AsRef<[u8]> for Mapped {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for Mapped {
    /// Length and kind: the bytes may be many gigabytes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match &*self.bytes {
            Bytes::Map(_) => "map",
            Bytes::Held(_) => "held",
        };
        write!(f, "Mapped({kind}, {} bytes)", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_shareable<T: Clone + Send + Sync>(_: &T) {}

    #[test]
    fn mapping_survives_every_advice() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bytes");
        let bytes: Vec<u8> = (0..100_000u32).map(|i| ((i * 7) >> 3) as u8).collect();
        fs::write(&path, &bytes).unwrap();
        let mapped = Mapped::open(&path).unwrap();
        is_shareable(&mapped);
        let clone = mapped.clone();
        drop(mapped);
        assert_eq!(&*clone, bytes);
        for advice in [Advice::Sequential, Advice::WillNeed, Advice::DoneWith] {
            for range in [0..bytes.len(), 5000..70_000, 99_999..usize::MAX, 200_000..300_000, 7..7] {
                clone.advise(advice, range);
                assert_eq!(&*clone, bytes, "{advice:?}");
            }
        }
    }

    #[test]
    fn changed_file_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        let changed = |mapped: &Mapped| match mapped.check_unchanged() {
            Ok(()) => "no".to_owned(),
            Err(Error::Changed { path: named, change }) if named == path => change,
            Err(error) => panic!("{error}"),
        };
        fs::write(&path, [1; 100]).unwrap();
        let mapped = Mapped::open(&path).unwrap();
        assert_eq!(changed(&mapped), "no");
        let file = fs::File::options().write(true).open(&path).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        assert_eq!(changed(&mapped), "it was modified");
        file.set_len(200).unwrap();
        assert_eq!(changed(&mapped), "it had 100 bytes and now has 200");
        fs::remove_file(&path).unwrap();
        assert!(changed(&mapped).contains("No such file") || cfg!(not(unix)));
    }

    #[test]
    fn empty_owned_and_invalid_maps() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("empty");
        fs::write(&path, []).unwrap();
        assert!(Mapped::open(&path).unwrap().is_empty());
        let held = Mapped::from(vec![1, 2, 3]);
        held.advise(Advice::DoneWith, 0..3);
        assert_eq!(&*held, [1, 2, 3]);
        assert_eq!(format!("{held:?}"), "Mapped(held, 3 bytes)");
        assert_eq!(Mapped::open(folder.path()).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert_eq!(Mapped::open(&folder.path().join("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}

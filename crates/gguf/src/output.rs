//! Writes a file of known length from many threads, and gives it its final name at the end.

use std::{
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use crate::{
    Error,
    map::{Held, know_temporary_file},
};

/// A file being written: under a temporary name in the folder of the final file until
/// [`Output::finish`], gone if that never happens.
///
/// All space is reserved at the start, so that a full disk shows before hours of work, not
/// after. What is never written reads as zeros.
#[derive(Debug)]
pub struct Output {
    final_path: PathBuf,
    /// The final path, or the file that it is a link to.
    target: PathBuf,
    temporary_path: PathBuf,
    /// Lets a signal handler remove the temporary file.
    known: Option<Held>,
    file: fs::File,
    len: u64,
    force: bool,
    is_in_place: bool,
}

impl Output {
    /// Creates the temporary file for `final_path` and reserves `len` bytes.
    ///
    /// Without `force` an existing final file is refused, now and again in
    /// [`Output::finish`]; with it, it is replaced in the last step and is whole until then. Where
    /// the path is a symbolic link to a file, that file is replaced and the link stays.
    ///
    /// # Errors
    /// [`Error::Exists`]; [`Error::NotAFile`] for a folder, a device or a path without a
    /// file name and [`Error::DeadLink`], with or without `force`; [`Error::Io`] when the file
    /// cannot be made or the space is not there.
    pub fn create(final_path: &Path, len: u64, force: bool) -> Result<Output, Error> {
        let target = check_replaceable(final_path, force)?;
        let Some(file_name) = target.file_name() else {
            return Err(Error::NotAFile { path: final_path.to_owned() });
        };
        let (temporary_path, file) = create_temporary(&target, &file_name.to_string_lossy())?;
        let output = Output {
            final_path: final_path.to_owned(),
            target,
            known: know_temporary_file(&temporary_path),
            temporary_path,
            file,
            len,
            force,
            is_in_place: false,
        };
        reserve(&output.file, len).map_err(|source| Error::Io {
            action: "reserve space",
            path: output.temporary_path.clone(),
            offset: Some(len),
            source,
        })?;
        Ok(output)
    }

    /// Writes a small file at once: under a temporary name first, as any other.
    ///
    /// # Errors
    /// As [`Output::create`] and [`Output::finish`].
    pub fn write_whole(path: &Path, bytes: &[u8], force: bool) -> Result<(), Error> {
        let output = Output::create(path, bytes.len() as u64, force)?;
        output.write_at(0, bytes)?;
        output.finish()
    }

    /// The path that the file will have.
    pub fn final_path(&self) -> &Path {
        &self.final_path
    }

    /// The path that the file has until it is finished.
    pub fn temporary_path(&self) -> &Path {
        &self.temporary_path
    }

    /// Writes `bytes` at `offset`. Threads may call this at once for ranges that are apart.
    ///
    /// # Errors
    /// [`Error::WriteOutOfRange`], or [`Error::Io`] with the offset.
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        let len = bytes.len() as u64;
        if offset.checked_add(len).is_none_or(|end| end > self.len) {
            return Err(Error::WriteOutOfRange { offset, len, file_len: self.len });
        }
        write_all_at(&self.file, bytes, offset).map_err(|source| Error::Io {
            action: "write",
            path: self.temporary_path.clone(),
            offset: Some(offset),
            source,
        })
    }

    /// Writes `len` bytes of `source`, from its byte `from` on, at `offset`; by the file system alone, without reading them,
    /// where it can.
    ///
    /// # Errors
    /// As [`Output::write_at`]; [`Error::Io`] also for a source that ends before.
    pub fn copy_range(&self, source: &fs::File, from: u64, len: u64, offset: u64) -> Result<(), Error> {
        if offset.checked_add(len).is_none_or(|end| end > self.len) {
            return Err(Error::WriteOutOfRange { offset, len, file_len: self.len });
        }
        copy_range(source, from, &self.file, offset, len).map_err(|source| Error::Io {
            action: "copy",
            path: self.temporary_path.clone(),
            offset: Some(offset),
            source,
        })
    }

    /// Hands what has been written so far to the disk and waits for it. Called now and then by a
    /// thread beside those that write, it leaves [`Output::finish`] little to wait for.
    ///
    /// # Errors
    /// [`Error::Io`]. The system tells of a failure once, so the caller must not drop it.
    pub fn sync_so_far(&self) -> Result<(), Error> {
        self.file.sync_data().map_err(|source| Error::io("sync", &self.temporary_path, source))
    }

    /// Checks the length, hands everything to the disk and gives the file its final name.
    /// Only then is there anything under that name.
    ///
    /// # Errors
    /// [`Error::Length`], [`Error::Exists`] where a file has come up meanwhile and `force` is
    /// not given, [`Error::Io`]. The temporary file is removed on each of them.
    pub fn finish(mut self) -> Result<(), Error> {
        let temporary_path = &self.temporary_path;
        let metadata = self.file.metadata().map_err(|source| Error::io("inspect", temporary_path, source))?;
        let found = metadata.len();
        if found != self.len {
            return Err(Error::Length { path: temporary_path.clone(), expected: self.len, found });
        }
        self.file.sync_all().map_err(|source| Error::io("sync", temporary_path, source))?;
        if check_replaceable(&self.final_path, self.force)? != self.target {
            // The link leads elsewhere than it did when this began.
            return Err(Error::NotAFile { path: self.final_path.clone() });
        }
        let renamed = if self.force {
            fs::rename(temporary_path, &self.target)
        } else {
            rename_without_replacing(temporary_path, &self.target)
        };
        renamed.map_err(|source| match source.kind() {
            io::ErrorKind::AlreadyExists => Error::Exists { path: self.final_path.clone() },
            _ => Error::io("replace", &self.final_path, source),
        })?;
        self.is_in_place = true;
        self.known = None;
        sync_folder(folder_of(&self.target))
    }

    /// Temporary files that earlier processes left beside `final_path` when they were on the way to it and ended
    /// without tidying up (a power cut, `kill -9`). Those of processes that live are not among them; where the system
    /// does not say which processes live, there are none.
    pub fn leftovers(final_path: &Path) -> Vec<Leftover> {
        let target = fs::canonicalize(final_path).unwrap_or_else(|_| final_path.to_owned());
        let Some(file_name) = target.file_name() else { return Vec::new() };
        let kept = kept_name(&file_name.to_string_lossy()).to_owned();
        let Ok(entries) = fs::read_dir(folder_of(&target)) else { return Vec::new() };
        let leftover = |entry: fs::DirEntry| {
            let name = entry.file_name().into_string().ok()?;
            let rest = name.strip_prefix('.')?.strip_suffix(".partial")?;
            let (numbers, of) = rest.split_once('.')?;
            let (process, number) = numbers.split_once('-')?;
            let is_number = number.bytes().all(|byte| byte.is_ascii_alphanumeric());
            if !is_number || of != kept || is_alive(process.parse().ok()?) {
                return None;
            }
            let metadata = entry.metadata().ok()?;
            let age = metadata.modified().ok().and_then(|modified| modified.elapsed().ok());
            let n_bytes = if metadata.is_dir() { bytes_in(&entry.path()) } else { metadata.len() };
            Some(Leftover { path: entry.path(), n_bytes, age })
        };
        let mut leftovers: Vec<Leftover> = entries.flatten().filter_map(leftover).collect();
        leftovers.sort_by(|a, b| a.path.cmp(&b.path));
        leftovers
    }
}

/// A temporary file, or the temporary folder of an export, whose process is dead.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leftover {
    /// The file or folder.
    pub path: PathBuf,
    /// Its length, of a folder that of the files in it.
    pub n_bytes: u64,
    /// Time since it was last written to, where the system says that.
    pub age: Option<Duration>,
}

/// Length of all files of a folder.
fn bytes_in(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.len()).sum()
}

/// Whether a process of this number may be there.
#[cfg(unix)]
fn is_alive(process: i32) -> bool {
    let process = rustix::process::Pid::from_raw(process);
    process.is_none_or(|process| rustix::process::test_kill_process(process) != Err(rustix::io::Errno::SRCH))
}

#[cfg(not(unix))]
fn is_alive(_process: i32) -> bool {
    true
}

impl Drop for Output {
    fn drop(&mut self) {
        if !self.is_in_place {
            // Nothing better can be done about a temporary file that cannot be removed.
            let _removed = fs::remove_file(&self.temporary_path);
        }
    }
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Where the output goes: `final_path`, or the file that it is a link to. A file may be replaced with force; a
/// folder, a device, a pipe or what a process has open (`/dev/stdout`) never.
fn check_replaceable(final_path: &Path, force: bool) -> Result<PathBuf, Error> {
    let not_a_file = || Error::NotAFile { path: final_path.to_owned() };
    let folder = fs::canonicalize(folder_of(final_path)).unwrap_or_default();
    if cfg!(unix)
        && (folder == Path::new("/dev") || folder.starts_with("/dev/fd") || folder.starts_with("/proc"))
    {
        return Err(not_a_file());
    }
    let Ok(metadata) = fs::symlink_metadata(final_path) else { return Ok(final_path.to_owned()) };
    let is_link = metadata.is_symlink();
    match fs::metadata(final_path) {
        Ok(metadata) if !metadata.is_file() => Err(not_a_file()),
        Err(_) if is_link => {
            let target = fs::read_link(final_path).unwrap_or_default();
            Err(Error::DeadLink { path: final_path.to_owned(), target })
        }
        _ if !force => Err(Error::Exists { path: final_path.to_owned() }),
        _ if is_link => {
            fs::canonicalize(final_path).map_err(|source| Error::io("follow", final_path, source))
        }
        _ => Ok(final_path.to_owned()),
    }
}

/// As much of a file's name as its temporary name holds: file systems allow 255 bytes, and the final name may use
/// them all.
pub fn kept_name(file_name: &str) -> &str {
    let mut kept = file_name.len().min(180);
    while !file_name.is_char_boundary(kept) {
        kept -= 1;
    }
    &file_name[..kept]
}

/// A new file beside `final_path` whose name is free, hidden, and does not end in `.gguf`.
fn create_temporary(final_path: &Path, file_name: &str) -> Result<(PathBuf, fs::File), Error> {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    loop {
        let n = COUNTER.fetch_add(1, Ordering::Relaxed);
        let name = format!(".{}-{n}.{}.partial", std::process::id(), kept_name(file_name));
        let path = folder_of(final_path).join(OsString::from(name));
        match fs::File::options().write(true).read(true).create_new(true).open(&path) {
            Ok(file) => return Ok((path, file)),
            Err(source) if source.kind() == io::ErrorKind::AlreadyExists => {}
            Err(source) => return Err(Error::io("create", &path, source)),
        }
    }
}

/// Reserves `len` bytes on the disk where the system and the file system can do that, and
/// makes the file that long in any case.
///
/// `fallocate` through rustix and not `posix_fallocate`: the latter writes the whole file
/// full of zeros where the file system cannot reserve.
fn reserve(file: &fs::File, len: u64) -> io::Result<()> {
    #[cfg(any(target_os = "linux", target_os = "android", target_os = "macos", target_os = "freebsd"))]
    if len > 0 {
        use rustix::io::Errno;
        match rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), 0, len) {
            // Not every file system can.
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL | Errno::NODEV | Errno::PERM) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    file.set_len(len)
}

/// Writes all of `bytes` at `offset`, wherever others write.
#[cfg(unix)]
pub(crate) fn write_all_at(file: &fs::File, bytes: &[u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, offset)
}

/// Writes all of `bytes` at `offset`, wherever others write.
#[cfg(windows)]
pub(crate) fn write_all_at(file: &fs::File, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match std::os::windows::fs::FileExt::seek_write(file, bytes, offset) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => {
                bytes = &bytes[n..];
                offset += n as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Bytes that are copied at a time where they have to be read.
const COPY_BYTES: u64 = 1 << 20;

/// Copies a range of one file to a place in another.
fn copy_range(source: &fs::File, mut from: u64, to: &fs::File, mut at: u64, mut len: u64) -> io::Result<()> {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    while len > 0 {
        use rustix::io::Errno;
        let wanted = usize::try_from(len).unwrap_or(usize::MAX);
        // Both offsets are moved by the bytes that were copied.
        match rustix::fs::copy_file_range(source, Some(&mut from), to, Some(&mut at), wanted) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(copied) => len -= copied as u64,
            Err(Errno::INTR) => {}
            // Not every kernel and file system can; what is left is read and written.
            Err(Errno::XDEV | Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP | Errno::PERM | Errno::BADF) => {
                break;
            }
            Err(errno) => return Err(errno.into()),
        }
    }
    let mut buffer = vec![0; len.min(COPY_BYTES) as usize];
    while len > 0 {
        let piece = &mut buffer[..len.min(COPY_BYTES) as usize];
        read_exact_at(source, piece, from)?;
        write_all_at(to, piece, at)?;
        (from, at, len) = (from + piece.len() as u64, at + piece.len() as u64, len - piece.len() as u64);
    }
    Ok(())
}

/// Reads as many bytes as `buffer` has, from `offset` on.
#[cfg(unix)]
pub(crate) fn read_exact_at(file: &fs::File, buffer: &mut [u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, buffer, offset)
}

/// Reads as many bytes as `buffer` has, from `offset` on.
#[cfg(windows)]
pub(crate) fn read_exact_at(file: &fs::File, mut buffer: &mut [u8], mut offset: u64) -> io::Result<()> {
    while !buffer.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, buffer, offset) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => {
                buffer = &mut buffer[n..];
                offset += n as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Renames, and fails with `AlreadyExists` where the new name is taken, in one step where
/// the system has such a step.
fn rename_without_replacing(from: &Path, to: &Path) -> io::Result<()> {
    #[cfg(any(target_os = "linux", target_os = "android", target_os = "macos"))]
    {
        use rustix::{
            fs::{CWD, RenameFlags},
            io::Errno,
        };
        match rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
            Ok(()) => return Ok(()),
            // The kernel or the file system does not know the flag.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    // A second name for the same file never replaces anything.
    match fs::hard_link(from, to) {
        Ok(()) => fs::remove_file(from),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(error),
        // No hard links here (FAT): the check just before has to do.
        Err(_) => fs::rename(from, to),
    }
}

#[cfg(unix)]
fn sync_folder(folder: &Path) -> Result<(), Error> {
    // The name itself reaches the disk with the folder. Some file systems cannot sync a
    // folder and say so with these; the file is complete and in place all the same.
    match fs::File::open(folder).and_then(|folder| folder.sync_all()) {
        Err(source)
            if !matches!(
                source.kind(),
                io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported | io::ErrorKind::PermissionDenied
            ) =>
        {
            Err(Error::io("sync", folder, source))
        }
        _ => Ok(()),
    }
}

#[cfg(not(unix))]
fn sync_folder(_folder: &Path) -> Result<(), Error> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn threads_write_and_only_finish_names_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.gguf");
        let output = Output::create(&path, 100_000, false).unwrap();
        assert_eq!(fs::metadata(output.temporary_path()).unwrap().len(), 100_000);
        assert!(!names(folder.path()).iter().any(|name| name.ends_with(".gguf")));
        std::thread::scope(|scope| {
            for thread in 0..4u8 {
                let output = &output;
                scope.spawn(move || {
                    for i in (0..99).filter(|i| i % 4 == u64::from(thread)) {
                        output.write_at(i * 1000, &[i as u8; 1000]).unwrap();
                    }
                });
            }
        });
        output.finish().unwrap();
        assert_eq!(names(folder.path()), ["model.gguf"]);
        let expected: Vec<u8> = (0..100_000).map(|i| if i < 99_000 { (i / 1000) as u8 } else { 0 }).collect();
        assert!(fs::read(&path).unwrap() == expected);
    }

    #[test]
    fn dropping_removes() {
        let folder = tempfile::tempdir().unwrap();
        let output = Output::create(&folder.path().join("x.gguf"), 10, false).unwrap();
        output.write_at(0, b"abc").unwrap();
        drop(output);
        assert!(names(folder.path()).is_empty());
    }

    #[test]
    fn an_existing_file_stays_without_force_and_is_replaced_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.gguf");
        let early = Output::create(&path, 3, false).unwrap();
        fs::write(&path, "old").unwrap();
        assert!(matches!(Output::create(&path, 3, false), Err(Error::Exists { .. })));
        early.write_at(0, b"new").unwrap();
        assert!(matches!(early.finish(), Err(Error::Exists { .. })));
        assert_eq!(names(folder.path()), ["x.gguf"]);
        assert_eq!(fs::read(&path).unwrap(), b"old");
        let output = Output::create(&path, 3, true).unwrap();
        output.write_at(0, b"new").unwrap();
        output.finish().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(names(folder.path()), ["x.gguf"]);
    }

    #[test]
    #[cfg(unix)]
    fn links_are_followed_to_files_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::create_dir(path("elsewhere")).unwrap();
        fs::write(path("elsewhere/file"), "old").unwrap();
        std::os::unix::fs::symlink("elsewhere/file", path("link")).unwrap();
        std::os::unix::fs::symlink("nothing", path("dead")).unwrap();
        std::os::unix::fs::symlink("elsewhere", path("folder")).unwrap();
        let whole = |name: &str, force| Output::write_whole(&path(name), b"new", force);
        assert!(matches!(whole("link", false), Err(Error::Exists { .. })));
        whole("link", true).unwrap();
        assert!(fs::symlink_metadata(path("link")).unwrap().is_symlink());
        assert_eq!(fs::read(path("elsewhere/file")).unwrap(), b"new");
        for force in [false, true] {
            let dead = whole("dead", force);
            assert!(matches!(dead, Err(Error::DeadLink { target, .. }) if target == Path::new("nothing")));
            assert!(matches!(whole("folder", force), Err(Error::NotAFile { .. })));
            for device in ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "/dev/none"] {
                let refused = Output::write_whole(Path::new(device), b"new", force);
                assert!(matches!(refused, Err(Error::NotAFile { .. })), "{device}");
            }
        }
        assert_eq!(names(folder.path()), ["dead", "elsewhere", "folder", "link"]);
    }

    #[test]
    #[cfg(unix)]
    fn what_dead_processes_left_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        let (dead, own) = (child.id(), std::process::id());
        for name in [
            format!(".{dead}-0.x.gguf.partial"),
            format!(".{dead}-12.x.gguf.partial"),
            format!(".{dead}-0.y.gguf.partial"),
            format!(".{own}-0.x.gguf.partial"),
            ".x-0.x.gguf.partial".to_owned(),
            format!(".{dead}-0.x.gguf"),
        ] {
            fs::write(path(&name), "left").unwrap();
        }
        let found = Output::leftovers(&path("x.gguf"));
        let paths: Vec<&Path> = found.iter().map(|it| it.path.as_path()).collect();
        assert_eq!(
            paths,
            [path(&format!(".{dead}-0.x.gguf.partial")), path(&format!(".{dead}-12.x.gguf.partial"))]
        );
        assert!(found.iter().all(|it| it.n_bytes == 4 && it.age.is_some()));
        assert!(Output::leftovers(&path("none/x.gguf")).is_empty());
    }

    #[test]
    fn the_last_step_itself_replaces_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        fs::write(&from, "from").unwrap();
        fs::write(&to, "to").unwrap();
        let error = rename_without_replacing(&from, &to).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&to).unwrap(), b"to");
        fs::remove_file(&to).unwrap();
        rename_without_replacing(&from, &to).unwrap();
        assert_eq!(names(folder.path()), ["to"]);
    }

    #[test]
    fn what_cannot_be_written() {
        let folder = tempfile::tempdir().unwrap();
        for force in [false, true] {
            assert!(matches!(Output::create(folder.path(), 1, force), Err(Error::NotAFile { .. })));
            assert!(matches!(Output::create(Path::new(".."), 1, force), Err(Error::NotAFile { .. })));
            assert!(matches!(Output::create(Path::new("/"), 1, force), Err(Error::NotAFile { .. })));
        }
        let nowhere = folder.path().join("none").join("x.gguf");
        assert!(matches!(Output::create(&nowhere, 1, false), Err(Error::Io { action: "create", .. })));
        let long = folder.path().join("ä".repeat(125));
        Output::create(&long, 1, false).unwrap().finish().unwrap();
        assert_eq!(fs::metadata(&long).unwrap().len(), 1);

        let path = folder.path().join("x.gguf");
        let output = Output::create(&path, 10, false).unwrap();
        for (offset, len) in [(0, 11), (10, 1), (u64::MAX, 1), (u64::MAX, 0)] {
            let result = output.write_at(offset, &vec![0; len]);
            assert!(matches!(result, Err(Error::WriteOutOfRange { .. })), "{offset} {len}");
        }
        output.write_at(10, &[]).unwrap();
        fs::File::options().write(true).open(output.temporary_path()).unwrap().set_len(9).unwrap();
        assert!(matches!(output.finish(), Err(Error::Length { expected: 10, found: 9, .. })));
        assert!(!path.exists());
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn space_that_is_not_there_is_reported_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.gguf");
        let Err(error) = Output::create(&path, i64::MAX as u64, false) else { panic!("8 EiB reserved") };
        assert!(matches!(&error, Error::Io { offset: Some(len), .. } if *len == i64::MAX as u64), "{error}");
        assert!(names(folder.path()).is_empty());
    }
}

//! Writes a file of known length from many threads, and gives it its final name at the end.

mod bytes;
mod locked;
mod open_files;
mod space;

use std::{
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use bytes::copy_range;
pub(crate) use bytes::{read_exact_at, write_all_at};
use locked::Unlocking;
pub(crate) use locked::is_at;
pub use locked::{LockedFile, Share, hidden_path, is_alive, this_process};
pub use open_files::{check_open_files, raise_open_files};
pub use space::check_space;

use crate::{
    Error,
    map::{Held, know_temporary_file},
};

/// A file being written: it has a temporary name in the folder of the final file until [`Output::finish`].
/// Without that call, a [created](Output::create) file is removed and a [claimed](Output::claim) one stays
/// for a later process.
///
/// All space is reserved at the start, so a full disk is reported before hours of work. Ranges that are never
/// written read as zeros.
#[derive(Debug)]
pub struct Output {
    final_path: PathBuf,
    /// Final path, or the target if it is a link.
    target: PathBuf,
    temporary_path: PathBuf,
    /// Lets a signal handler remove the temporary file.
    known: Option<Held>,
    file: Unlocking,
    len: u64,
    force: bool,
    fate: Fate,
}

/// Fate of the temporary file when its [`Output`] is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Removed,
    Kept,
    /// There is no temporary file: the file has its final name.
    InPlace {
        /// True if another file had that name before.
        replaced: bool,
    },
}

/// Treatment of an existing temporary file by [`Output::claim`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// Truncate the existing file.
    Anew,
    /// Keep the existing file.
    GoOn,
    /// Keep it. Other processes may use it at the same time, each for its own ranges. It is not locked, since
    /// a shared lock would prevent writing on Windows. Each writer records itself in its own journal.
    Parts,
    /// Keep it. It only takes space for written ranges.
    Sparse,
}

impl Output {
    /// Creates the temporary file for `final_path` and reserves `len` bytes.
    ///
    /// Without `force` an existing final file is refused, now and again in [`Output::finish`]; with it, it is
    /// replaced in the last step. If the path is a symbolic link to a file, that file is replaced and the
    /// link stays.
    ///
    /// # Errors
    /// [`Error::Exists`]; [`Error::NotAFile`] for a folder, a device or a path without a file name and
    /// [`Error::DeadLink`], with or without `force`; [`Error::Io`] if the file cannot be created or there is
    /// not enough space.
    pub fn create(final_path: &Path, len: u64, force: bool) -> Result<Output, Error> {
        let target = check_replaceable(final_path, force)?;
        let Some(file_name) = target.file_name() else {
            return Err(Error::NotAFile { path: final_path.to_owned() });
        };
        space::check_room(folder_of(&target), len)?;
        let (temporary_path, file) = create_temporary(&target, &file_name.to_string_lossy())?;
        let output = Output {
            final_path: final_path.to_owned(),
            target,
            known: know_temporary_file(&temporary_path),
            temporary_path,
            file: Unlocking(file),
            len,
            force,
            fate: Fate::Removed,
        };
        output.reserve()?;
        Ok(output)
    }

    /// Opens or creates the temporary file of `final_path` that a later process can continue
    /// ([`Output::temporary_path_of`]), locks it and reserves `len` bytes. It stays when this value is
    /// dropped.
    ///
    /// # Errors
    /// Those of [`Output::create`]; [`Error::Busy`] if another process has it.
    pub fn claim(final_path: &Path, len: u64, force: bool, claim: Claim) -> Result<Output, Error> {
        let target = check_replaceable(final_path, force)?;
        if target.file_name().is_none() {
            return Err(Error::NotAFile { path: final_path.to_owned() });
        }
        let temporary_path = Output::temporary_path_of(final_path);
        let (file, known) = match claim {
            Claim::Parts => LockedFile::open(&temporary_path, Share::Many)?.unlocked(),
            _ => LockedFile::open(&temporary_path, Share::Alone)?,
        }
        .into_file();
        let fate = if claim == Claim::Anew { Fate::Removed } else { Fate::Kept };
        let final_path = final_path.to_owned();
        let mut output = Output { final_path, target, temporary_path, known, file, len, force, fate };
        if claim == Claim::Anew {
            let emptied = output.file.set_len(0);
            emptied.map_err(|source| Error::io("empty", &output.temporary_path, source))?;
        }
        match claim {
            Claim::Sparse => output.file.set_len(len).map_err(|source| output.cannot_reserve(source))?,
            _ => output.reserve()?,
        }
        output.fate = Fate::Kept;
        Ok(output)
    }

    /// A file that an earlier process already gave its final name. It can be read; finishing it has no
    /// effect.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Length`] for a file of another length.
    pub fn in_place(final_path: &Path, len: u64) -> Result<Output, Error> {
        let file = fs::File::open(final_path).map_err(|source| Error::io("open", final_path, source))?;
        let output = Output {
            final_path: final_path.to_owned(),
            target: final_path.to_owned(),
            temporary_path: final_path.to_owned(),
            known: None,
            file: Unlocking(file),
            len,
            force: false,
            fate: Fate::InPlace { replaced: true },
        };
        output.check_len()?;
        Ok(output)
    }

    /// True if the file has its final name.
    pub fn is_in_place(&self) -> bool {
        matches!(self.fate, Fate::InPlace { .. })
    }

    /// Temporary path used by [`Output::claim`].
    pub fn temporary_path_of(final_path: &Path) -> PathBuf {
        hidden_path(final_path, "partial")
    }

    /// Removes the temporary file.
    pub fn discard(mut self) {
        if !self.is_in_place() {
            self.fate = Fate::Removed;
        }
    }

    fn reserve(&self) -> Result<(), Error> {
        reserve(&self.file, self.len).map_err(|source| self.cannot_reserve(source))
    }

    fn cannot_reserve(&self, source: io::Error) -> Error {
        let (path, offset) = (self.temporary_path.clone(), Some(self.len));
        Error::Io { action: "reserve space", path, offset, source }
    }

    /// Writes a small file atomically.
    pub fn write_whole(path: &Path, bytes: &[u8], force: bool) -> Result<(), Error> {
        let output = Output::create(path, bytes.len() as u64, force)?;
        output.write_at(0, bytes)?;
        output.finish()
    }

    /// Final path of the file.
    pub fn final_path(&self) -> &Path {
        &self.final_path
    }

    /// Path of the file until it is finished.
    pub fn temporary_path(&self) -> &Path {
        &self.temporary_path
    }

    /// Writes `bytes` at `offset`. Threads may call this simultaneously for disjoint ranges.
    ///
    /// # Errors
    /// [`Error::WriteOutOfRange`], or [`Error::Io`] with the offset.
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        let len = bytes.len() as u64;
        if offset.checked_add(len).is_none_or(|end| end > self.len) {
            return Err(Error::WriteOutOfRange { offset, len, file_len: self.len });
        }
        write_all_at(&self.file, bytes, offset).map_err(|source| {
            touch_unreadable(bytes, &source);
            Error::Io { action: "write", path: self.temporary_path.clone(), offset: Some(offset), source }
        })
    }

    /// Fills `buffer` with bytes from `offset` on.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), Error> {
        read_exact_at(&self.file, buffer, offset).map_err(|source| Error::Io {
            action: "read",
            path: self.temporary_path.clone(),
            offset: Some(offset),
            source,
        })
    }

    /// Copies `len` bytes of `source`, from its byte `from` on, to `offset`; without reading them if the file
    /// system can.
    ///
    /// # Errors
    /// Those of [`Output::write_at`]; [`Error::Io`] also for a source that ends too early.
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

    /// Copies a range of another output to the same offset, like [`Output::copy_range`].
    pub fn copy_from(&self, other: &Output, offset: u64, len: u64) -> Result<(), Error> {
        self.copy_range(&other.file, offset, len, offset)
    }

    /// Flushes everything written so far to the disk. Regular calls from a separate thread leave little work
    /// for [`Output::finish`].
    ///
    /// # Errors
    /// [`Error::Io`]. The system reports a failure only once, so the caller must not drop it.
    pub fn sync_so_far(&self) -> Result<(), Error> {
        self.file.sync_data().map_err(|source| Error::io("sync", &self.temporary_path, source))
    }

    /// Checks the length, flushes everything to disk and renames the file. The final name does not exist
    /// before.
    ///
    /// # Errors
    /// [`Error::Length`], [`Error::Exists`] if a file has appeared meanwhile without `force`, [`Error::Io`].
    /// In each case the temporary file of [`Output::create`] is removed.
    pub fn finish(mut self) -> Result<(), Error> {
        self.prepare()?;
        self.place()
    }

    /// First half of [`Output::finish`]: checks the length, flushes everything to disk and checks that the
    /// final name is available.
    pub fn prepare(&self) -> Result<(), Error> {
        if self.is_in_place() {
            return Ok(());
        }
        self.check_len()?;
        self.file.sync_all().map_err(|source| Error::io("sync", &self.temporary_path, source))?;
        if check_replaceable(&self.final_path, self.force)? != self.target {
            // The link's target has changed since the start.
            return Err(Error::NotAFile { path: self.final_path.clone() });
        }
        Ok(())
    }

    /// Second half of [`Output::finish`]: renames the file.
    pub fn place(&mut self) -> Result<(), Error> {
        if self.is_in_place() {
            return Ok(());
        }
        let replaced = self.force && fs::symlink_metadata(&self.target).is_ok();
        let renamed = if self.force {
            fs::rename(&self.temporary_path, &self.target)
        } else {
            rename_without_replacing(&self.temporary_path, &self.target)
        };
        renamed.map_err(|source| match source.kind() {
            io::ErrorKind::AlreadyExists => Error::Exists { path: self.final_path.clone() },
            _ => Error::io("replace", &self.final_path, source),
        })?;
        self.fate = Fate::InPlace { replaced };
        self.known = None;
        sync_folder(folder_of(&self.target))
    }

    /// Reverts [`Output::place`] unless it replaced a file. For outputs that appear together, if another one
    /// cannot be placed. The temporary file stays.
    pub fn withdraw(&mut self) {
        if self.fate == (Fate::InPlace { replaced: false })
            && rename_without_replacing(&self.target, &self.temporary_path).is_ok()
        {
            self.fate = Fate::Kept;
        }
    }

    fn check_len(&self) -> Result<(), Error> {
        let metadata = self.file.metadata();
        let found = metadata.map_err(|source| Error::io("inspect", &self.temporary_path, source))?.len();
        if found != self.len {
            return Err(Error::Length { path: self.temporary_path.clone(), expected: self.len, found });
        }
        Ok(())
    }

    /// Temporary files next to `final_path` from earlier processes that ended without cleaning up (a power
    /// cut, `kill -9`). Files of running processes are excluded; if the system does not list processes, the
    /// result is empty.
    pub fn leftovers(final_path: &Path) -> Vec<Leftover> {
        let target = fs::canonicalize(final_path).unwrap_or_else(|_| final_path.to_owned());
        let Some(file_name) = target.file_name() else { return Vec::new() };
        let stem = kept_name(&file_name.to_string_lossy()).to_owned();
        let Ok(entries) = fs::read_dir(folder_of(&target)) else { return Vec::new() };
        let leftover = |entry: fs::DirEntry| {
            let name = entry.file_name().into_string().ok()?;
            let rest = name.strip_prefix('.')?.strip_suffix(".partial")?;
            let (numbers, of) = rest.split_once('.')?;
            let (process, number) = numbers.split_once('-')?;
            let is_number = number.bytes().all(|byte| byte.is_ascii_alphanumeric());
            if !is_number || of != stem || is_alive(process.parse().ok()?) {
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
    /// File or folder.
    pub path: PathBuf,
    /// Length of the file, or of all files in the folder.
    pub n_bytes: u64,
    /// Time since the last write, if known.
    pub age: Option<Duration>,
}

/// Length of all files of a folder.
fn bytes_in(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.len()).sum()
}

impl Drop for Output {
    fn drop(&mut self) {
        if self.fate == Fate::Removed {
            // If removing fails, the temporary file stays.
            let _ = fs::remove_file(&self.temporary_path);
        }
    }
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Destination of the output: `final_path`, or the target of that link. With force a file may be replaced; a
/// folder, a device, a pipe or an open file (`/dev/stdout`) never.
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

/// Part of a file's name that is kept in its temporary name: file systems allow 255 bytes, and the final name
/// may use them all.
pub fn kept_name(file_name: &str) -> &str {
    let mut stem = file_name.len().min(180);
    while !file_name.is_char_boundary(stem) {
        stem -= 1;
    }
    &file_name[..stem]
}

/// Creates a hidden file with a free name next to `final_path` that does not end in `.gguf`.
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

/// Reserves `len` bytes on disk if the system and the file system can, and sets the file's length in any
/// case.
///
/// Uses `fallocate` through rustix because `posix_fallocate` writes zeros if the file system cannot reserve.
fn reserve(file: &fs::File, len: u64) -> io::Result<()> {
    #[cfg(any(target_os = "linux", target_os = "android", target_os = "macos", target_os = "freebsd"))]
    if len > 0 {
        use rustix::io::Errno;
        match rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), 0, len) {
            // Unsupported by some file systems.
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL | Errno::NODEV | Errno::PERM) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    file.set_len(len)
}

/// If the system could not read the bytes to write, they are in a map whose file was truncated or whose disk
/// failed. Reading them here raises the signal whose handler ([`crate::exit_on_bus_error`]) names that file;
/// the write error would name the output.
fn touch_unreadable(bytes: &[u8], error: &io::Error) {
    #[cfg(unix)]
    if error.raw_os_error() == Some(libc::EFAULT) {
        std::hint::black_box(bytes.iter().step_by(512).fold(0u8, |sum, byte| sum ^ byte));
    }
    #[cfg(not(unix))]
    let _ = (bytes, error);
}

/// Renames, and fails with `AlreadyExists` if the new name is taken, atomically if the system supports it.
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
    // A second name for the file never replaces anything.
    match fs::hard_link(from, to) {
        Ok(()) => fs::remove_file(from),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(error),
        // No hard links (FAT): the preceding check must suffice.
        Err(_) => fs::rename(from, to),
    }
}

#[cfg(unix)]
fn sync_folder(folder: &Path) -> Result<(), Error> {
    // Syncing the folder makes the name durable. Some file systems cannot sync a folder and return these
    // errors; the file is complete and in place anyway.
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
mod tests;

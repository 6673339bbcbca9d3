//! Files that outlive the process that writes them, with locks that do not.

use std::{
    fs,
    io::{self, Read, Seek},
    path::{Path, PathBuf},
};

use super::kept_name;
use crate::{
    Error,
    map::{Held, know_resumable_file},
};

/// Processes that may have a file open at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    /// One process, which may read and write.
    Alone,
    /// Many processes, if no process has it exclusively. They may not write, which Windows enforces.
    Many,
}

/// An open file that is unlocked on drop.
///
/// A `flock` only ends with the last descriptor, and a child process that another thread is about to start
/// has all descriptors of this process until it runs its own program.
#[derive(Debug)]
pub(super) struct Unlocking(pub(super) fs::File);

impl std::ops::Deref for Unlocking {
    type Target = fs::File;

    fn deref(&self) -> &fs::File {
        &self.0
    }
}

impl Drop for Unlocking {
    fn drop(&mut self) {
        // Fails for a file without a lock, or on a file system without locks, which is harmless.
        let _ = self.0.unlock();
    }
}

/// An open, locked file that survives a crash.
///
/// The lock (`flock`, on Windows `LockFileEx`) ends with the process, however it ends, so an available lock
/// means that no process is working. On Windows it belongs to one handle and is mandatory: while it is held
/// exclusively, no other handle can read or write the file, not even one of the same process. If a mapped
/// source of the process becomes shorter, [`crate::exit_on_bus_error`] removes the file.
#[derive(Debug)]
pub struct LockedFile {
    path: PathBuf,
    file: Unlocking,
    is_sure: bool,
    _known: Option<Held>,
}

impl LockedFile {
    /// Opens or creates the file at `path`, and locks it. Existing contents stay.
    ///
    /// # Errors
    /// [`Error::Busy`] if another process has it; [`Error::NotAFile`] if it is not a regular file, including
    /// links; [`Error::Io`].
    pub fn open(path: &Path, share: Share) -> Result<LockedFile, Error> {
        loop {
            let mut options = fs::File::options();
            options.read(true).write(true).create(true).truncate(false);
            #[cfg(unix)]
            {
                // The name can be guessed: in a shared folder, a link must not redirect us.
                std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NOFOLLOW);
            }
            let file = options.open(path).map_err(|source| match fs::symlink_metadata(path) {
                Ok(metadata) if !metadata.is_file() => Error::NotAFile { path: path.to_owned() },
                _ => Error::io("create", path, source),
            })?;
            if !file.metadata().is_ok_and(|metadata| metadata.is_file()) {
                return Err(Error::NotAFile { path: path.to_owned() });
            }
            let locked = match share {
                Share::Alone => file.try_lock(),
                Share::Many => file.try_lock_shared(),
            };
            let is_sure = match locked {
                Ok(()) => true,
                Err(fs::TryLockError::WouldBlock) => return Err(Error::Busy { path: path.to_owned() }),
                Err(fs::TryLockError::Error(source)) if has_no_locks(&source) => false,
                Err(fs::TryLockError::Error(source)) => return Err(Error::io("lock", path, source)),
            };
            // The previous owner may have renamed or removed it between opening and locking.
            if is_at(&file, path) {
                let known = know_resumable_file(path);
                return Ok(LockedFile {
                    path: path.to_owned(),
                    file: Unlocking(file),
                    is_sure,
                    _known: known,
                });
            }
        }
    }

    /// Reads the file through the handle that has the lock; on Windows no other handle can.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn read(&self) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        let mut file = &*self.file;
        let read = file.rewind().and_then(|()| file.read_to_end(&mut bytes));
        read.map_err(|source| Error::io("read", &self.path, source))?;
        Ok(bytes)
    }

    /// The open file.
    pub fn file(&self) -> &fs::File {
        &self.file
    }

    /// Path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// True if no other process has it open. Some network file systems have no locks; then it is unknown.
    pub fn is_sure(&self) -> bool {
        self.is_sure
    }

    pub(super) fn unlocked(self) -> LockedFile {
        // Fails on file systems without locks, which is harmless.
        let _ = self.file.unlock();
        self
    }

    pub(super) fn into_file(self) -> (Unlocking, Option<Held>) {
        (self.file, self._known)
    }
}

fn has_no_locks(error: &io::Error) -> bool {
    // `Unsupported` is ENOSYS and EOPNOTSUPP; ENOLCK is a lock server that does not answer.
    #[cfg(unix)]
    if error.raw_os_error() == Some(libc::ENOLCK) {
        return true;
    }
    error.kind() == io::ErrorKind::Unsupported
}

/// True if an open file is the one at `path`.
#[cfg(unix)]
pub(crate) fn is_at(file: &fs::File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let place = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
    let (open, current) = (file.metadata().map(place).ok(), fs::symlink_metadata(path).map(place).ok());
    open.is_some() && open == current
}

#[cfg(not(unix))]
pub(crate) fn is_at(file: &fs::File, path: &Path) -> bool {
    use same_file::Handle;
    // Files are opened with `FILE_SHARE_DELETE`, so that they can be renamed and removed while open.
    let open = file.try_clone().and_then(Handle::from_file);
    open.ok().zip(Handle::from_path(path).ok()).is_some_and(|(open, current)| open == current)
}

/// Hidden path of a file that belongs to the output at `final_path`: `.NAME.EXTENSION` next to it, after
/// resolving a link. It depends only on the final name, so that a later process finds it.
pub fn hidden_path(final_path: &Path, extension: &str) -> PathBuf {
    let target = fs::canonicalize(final_path).unwrap_or_else(|_| final_path.to_owned());
    let name = target.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let stem = kept_name(&name);
    // Distinguishes two long names with the same beginning.
    let rest = match &name[stem.len()..] {
        "" => String::new(),
        rest => {
            format!("~{:08x}", rest.bytes().fold(0u32, |sum, byte| sum.wrapping_mul(31) + u32::from(byte)))
        }
    };
    target.with_file_name(format!(".{stem}{rest}.{extension}"))
}

/// Process id and host name, for processes that find its locks.
pub fn this_process() -> (u32, String) {
    #[cfg(unix)]
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    #[cfg(not(unix))]
    let host = String::new();
    (std::process::id(), host)
}

/// True if a process of this machine may be alive.
#[cfg(unix)]
pub fn is_alive(process: u32) -> bool {
    let process = i32::try_from(process).ok().and_then(rustix::process::Pid::from_raw);
    process.is_none_or(|process| rustix::process::test_kill_process(process) != Err(rustix::io::Errno::SRCH))
}

/// True if a process of this machine may be alive.
#[cfg(not(unix))]
pub fn is_alive(_process: u32) -> bool {
    true
}

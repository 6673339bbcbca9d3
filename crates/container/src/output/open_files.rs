//! Limit of open files: all shards of an output are open at the same time.

use crate::Error;

/// Descriptors reserved for sources, journals and libraries.
#[cfg(unix)]
const SPARE: u64 = 32;

/// Raises the soft limit of open files to the hard limit. Programs call it at startup. Has no effect on
/// systems without such a limit.
pub fn raise_open_files() {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let limit = getrlimit(Resource::Nofile);
        // macOS has no hard limit, but refuses a soft one above `kern.maxfilesperproc`, which is at least 10,240.
        for current in [limit.maximum, Some(10_240)] {
            let raises = limit.current.is_some_and(|now| current.is_none_or(|new| new > now));
            if raises && setrlimit(Resource::Nofile, Rlimit { current, maximum: limit.maximum }).is_ok() {
                return;
            }
        }
    }
}

/// Checks that the process may open `n_files` more, before the first one is created.
///
/// # Errors
/// [`Error::OpenFiles`].
pub fn check_open_files(n_files: usize) -> Result<(), Error> {
    #[cfg(unix)]
    if let Some(limit) = rustix::process::getrlimit(rustix::process::Resource::Nofile).current {
        // Without this folder, assume that few files are open.
        let n_open = std::fs::read_dir("/dev/fd").map_or(0, Iterator::count) as u64;
        let needed = (n_files as u64).saturating_add(n_open).saturating_add(SPARE);
        if needed > limit {
            return Err(Error::OpenFiles { n_files, needed, limit });
        }
    }
    #[cfg(not(unix))]
    let _ = n_files;
    Ok(())
}

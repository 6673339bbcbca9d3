//! Checks free disk space before writing.

use std::path::Path;

use super::folder_of;
use crate::Error;

/// Checks that the disks of `files` (temporary paths and lengths) have room for all files together. Space of
/// existing files counts as free, because they are overwritten. Passes if the system does not report free
/// space.
///
/// # Errors
/// [`Error::NoSpace`].
pub fn check_space(files: &[(&Path, u64)]) -> Result<(), Error> {
    // Files on one disk share its space.
    let mut disks: Vec<(Disk, &Path, u64)> = Vec::new();
    for (path, len) in files {
        let folder = folder_of(path);
        let Some(disk) = disk_of(folder) else { continue };
        let needed = len.saturating_sub(allocated(path));
        match disks.iter_mut().find(|(known, ..)| known.id == disk.id) {
            Some((_, _, sum)) => *sum = sum.saturating_add(needed),
            None => disks.push((disk, folder, needed)),
        }
    }
    match disks.into_iter().find(|(disk, _, needed)| *needed > disk.free) {
        Some((disk, folder, needed)) => {
            Err(Error::NoSpace { folder: folder.to_owned(), needed, free: disk.free })
        }
        None => Ok(()),
    }
}

/// Checks the room for one new file.
pub(super) fn check_room(folder: &Path, needed: u64) -> Result<(), Error> {
    match disk_of(folder) {
        Some(disk) if needed > disk.free => {
            Err(Error::NoSpace { folder: folder.to_owned(), needed, free: disk.free })
        }
        _ => Ok(()),
    }
}

#[derive(Debug)]
struct Disk {
    id: u64,
    free: u64,
}

#[cfg(unix)]
fn disk_of(folder: &Path) -> Option<Disk> {
    use std::os::unix::fs::MetadataExt;
    let stat = rustix::fs::statvfs(folder).ok()?;
    // A file system that reports no blocks does not count them.
    let counts = stat.f_blocks > 0;
    let id = std::fs::metadata(folder).ok()?.dev();
    counts.then(|| Disk { id, free: stat.f_bavail.saturating_mul(stat.f_frsize) })
}

/// Bytes that a file occupies on disk.
#[cfg(unix)]
fn allocated(path: &Path) -> u64 {
    // `st_blocks` always counts units of 512 bytes.
    std::fs::symlink_metadata(path)
        .map_or(0, |metadata| std::os::unix::fs::MetadataExt::blocks(&metadata) * 512)
}

#[cfg(not(unix))]
fn disk_of(_folder: &Path) -> Option<Disk> {
    None
}

#[cfg(not(unix))]
fn allocated(_path: &Path) -> u64 {
    0
}

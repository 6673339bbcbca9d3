//! Folders for readers of folders, in memory if the system supports it.

use std::{
    cell::RefCell,
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
};

use tempfile::TempDir;

thread_local! {
    static FOLDERS: RefCell<HashMap<&'static str, TempDir>> = RefCell::default();
}

/// Passes a folder with exactly these files to `read`; `target` is part of its name.
pub(crate) fn with_files<T>(
    target: &'static str,
    files: &[(&str, &[u8])],
    read: impl FnOnce(&Path) -> T,
) -> T {
    let folder = folder(target);
    for (name, bytes) in files {
        fs::write(folder.join(name), bytes).expect("a temporary folder can be written");
    }
    let made = read(&folder);
    for (name, _) in files {
        // A name may occur twice.
        let _ = fs::remove_file(folder.join(name));
    }
    made
}

/// Removes all files of a folder, which has no other.
pub(crate) fn empty(folder: &Path) {
    for entry in fs::read_dir(folder).expect("a temporary folder can be read").flatten() {
        let _ = fs::remove_file(entry.path());
    }
}

fn folder(target: &'static str) -> PathBuf {
    FOLDERS.with_borrow_mut(|folders| {
        let folder = folders.entry(target).or_insert_with(|| {
            let in_memory = tempfile::tempdir_in("/dev/shm");
            in_memory.or_else(|_| tempfile::tempdir()).expect("a temporary folder")
        });
        folder.path().to_owned()
    })
}

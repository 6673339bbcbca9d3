//! Files that conversions write: checks of their paths, and messages about them.

use std::{
    fs,
    path::{Path, PathBuf},
};

use gguf_container::Output;
use gguf_conversion::{PlannedFile, Resumed};

use crate::{
    events::Events,
    text::{human_bytes, human_duration},
};

/// True if OUT is given as a folder (`out/`) that does not exist yet. It is created before the first file is
/// written.
pub fn is_new_folder(out: Option<&Path>) -> bool {
    let ends_like_a_folder = |out: &Path| {
        let last = out.as_os_str().as_encoded_bytes().last();
        last.is_some_and(|last| std::path::is_separator(char::from(*last)))
    };
    out.is_some_and(|out| ends_like_a_folder(out) && fs::symlink_metadata(out).is_err())
}

/// Checks that `path`, the output for `out`, can be written without touching the input folder.
///
/// # Errors
/// As [`gguf_conversion::check_output`].
pub fn check_output(
    path: &Path,
    out: Option<&Path>,
    input: &Path,
    force: bool,
) -> Result<(), gguf_conversion::Error> {
    if !is_new_folder(out) {
        return gguf_conversion::check_output(path, input, force);
    }
    // For a folder that will be created, its nearest existing ancestor must not be the input or inside it.
    let there = path.ancestors().skip(1).find_map(|folder| {
        fs::canonicalize(if folder.as_os_str().is_empty() { Path::new(".") } else { folder }).ok()
    });
    match (there, fs::canonicalize(input)) {
        (Some(there), Ok(input)) if there.starts_with(&input) => {
            Err(gguf_conversion::Error::OutputInsideInput { path: path.to_owned() })
        }
        _ => Ok(()),
    }
}

/// Creates the folder of a file if it is missing.
///
/// # Errors
/// An error of the operating system.
pub fn make_folder_of(path: &Path) -> Result<(), gguf_conversion::Error> {
    let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) else { return Ok(()) };
    fs::create_dir_all(folder).map_err(|source| {
        gguf_conversion::Error::Gguf(gguf_container::Error::Io {
            action: "make",
            path: folder.to_owned(),
            offset: None,
            source,
        })
    })
}

/// Reports the written files.
pub fn say_written(files: &[(PathBuf, &PlannedFile)], events: &dyn Events) {
    for (path, file) in files {
        let (n_bytes, bits) = (file.plan.file_len(), file.bits_per_weight());
        let (path, size) = (path.display(), human_bytes(n_bytes));
        events.status(format!("wrote {path}: {n_bytes} bytes ({size}), {bits:.2} bits/weight"));
    }
}

/// Reports the progress of an earlier run.
pub fn tell(resumed: Resumed, events: &dyn Events) {
    let Resumed { done_bytes, wrong_bytes, total_bytes, .. } = resumed;
    let (done, total) = (human_bytes(done_bytes), human_bytes(total_bytes));
    events.note(format!("resuming: {done} of {total} verified"));
    if wrong_bytes > 0 {
        let wrong = human_bytes(wrong_bytes);
        events.warning(format!("{wrong} of the earlier run failed verification and are converted again"));
    }
}

/// Warns about temporary files that other runs left next to the same output. They are not removed, because a process on
/// another machine may still write them.
pub fn warn_of_leftovers(path: &Path, events: &dyn Events) {
    for leftover in Output::leftovers(path) {
        let age = leftover.age.map_or_else(String::new, |age| format!(", {} old", human_duration(age)));
        let remove = if leftover.path.is_dir() { "rm -r" } else { "rm" };
        events.warning(format!(
            "{}: {}{age}, left by a killed run; unless another machine is writing it, remove it with `{remove}`",
            leftover.path.display(),
            human_bytes(leftover.n_bytes)
        ));
    }
}

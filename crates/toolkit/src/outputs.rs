//! Outputs of commands: checked before the work starts, and not lost after it.
//!
//! Every command calls [`check_outputs`] with all of its outputs before it opens a model or reads weights,
//! and [`write_result`] for results that exist only in memory.

use std::{
    collections::HashSet,
    fs,
    path::{Path, PathBuf},
};

use gguf_container::Output;

use crate::{cause::Cause, error::Error};

/// Checks that every one of `outputs` can be written. Leaves no files.
///
/// # Errors
/// An output that exists without `force`, is a folder or device, has a missing or read-only folder, is also
/// one of `inputs`, or is given by two options, through any links.
pub fn check_outputs(
    outputs: &[impl AsRef<Path>],
    inputs: &[impl AsRef<Path>],
    force: bool,
) -> Result<(), Error> {
    check_distinct(outputs, inputs)?;
    for path in outputs.iter().map(AsRef::as_ref) {
        check_output_name(path).map_err(Error::usage)?;
        gguf_conversion::check_output_file(path, &[], force)
            .map_err(|error| output_failure(path, error.into()))?;
        check_writable(path, force)?;
    }
    Ok(())
}

/// Checks that the paths that a command writes differ from each other and from those that it reads, through any links. An input
/// that is overwritten would be lost after the run, and a mapped one must not change during it.
///
/// # Errors
/// An output that is given by two options or is one of `inputs`.
pub fn check_distinct(outputs: &[impl AsRef<Path>], inputs: &[impl AsRef<Path>]) -> Result<(), Error> {
    let inputs: Vec<PathBuf> =
        inputs.iter().filter_map(|path| fs::canonicalize(path.as_ref()).ok()).collect();
    let mut seen = HashSet::new();
    for path in outputs.iter().map(AsRef::as_ref) {
        let real = gguf_conversion::real_output(path);
        if inputs.contains(&real) {
            return Err(Error::new(gguf_conversion::Error::OutputIsInput { path: path.to_owned() }));
        }
        if !seen.insert(real) {
            return Err(Error::usage(format_args!("two options write to {}", path.display())));
        }
    }
    Ok(())
}

/// Fails unless a file can be written at `path`.
///
/// It goes through the code that writes: the file is created under its temporary name and dropped again. So
/// what is found here is what [`Output::finish`] would find after hours of work.
///
/// # Errors
/// As [`check_outputs`].
fn check_writable(path: &Path, force: bool) -> Result<(), Error> {
    // Dropping an output that is not finished removes its temporary file.
    Output::create(path, 0, force).map(drop).map_err(|error| output_failure(path, error.into()))
}

/// Creates a folder and its missing parents.
///
/// # Errors
/// An error of the operating system.
pub fn make_folder(path: &Path) -> Result<(), Error> {
    fs::create_dir_all(path).map_err(|error| Error::at(path, format_args!("cannot create: {error}")))
}

/// Writes a small file atomically. If that fails now, although [`check_outputs`] found nothing wrong
/// (the file has appeared meanwhile, the disk is full), the bytes are saved in the folder `rescue`, and a hint names the place.
///
/// # Errors
/// An error of the operating system. A hint names the place of the result.
pub fn write_result(path: &Path, bytes: &[u8], force: bool, rescue: &Path) -> Result<(), Error> {
    let Err(error) = Output::write_whole(path, bytes, force) else { return Ok(()) };
    let saved = save_elsewhere(path, bytes, rescue);
    let hint = saved.map(|saved| format!("the result is in {}", saved.display()));
    Err(output_failure(path, error.into()).hint(hint))
}

/// Writes a small file atomically.
///
/// # Errors
/// An error of the operating system.
pub fn write_file(path: &Path, bytes: &[u8], force: bool) -> Result<(), Error> {
    Output::write_whole(path, bytes, force).map_err(|error| output_failure(path, error.into()))
}

/// The failure of an output, with the path that the user gave and not the temporary one, and with advice.
fn output_failure(path: &Path, cause: Cause) -> Error {
    match cause {
        Cause::Container(gguf_container::Error::Io { action, source, .. })
        | Cause::Conversion(gguf_conversion::Error::Gguf(gguf_container::Error::Io {
            action, source, ..
        })) => Error::at(path, format_args!("cannot {action}: {source}")),
        // These name the path themselves.
        cause => Error::new(cause),
    }
}

/// Refuses `-`, which is standard output elsewhere.
///
/// # Errors
/// A message with the name to use instead.
pub fn check_output_name(path: &Path) -> Result<(), String> {
    if path.as_os_str() == "-" {
        return Err(
            "`-`: the output cannot be written to stdout; write `./-` for a file with that name".to_owned()
        );
    }
    Ok(())
}

fn save_elsewhere(path: &Path, bytes: &[u8], rescue: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_string_lossy();
    let saved = rescue.join(format!("gguf-tools-{}-{name}", std::process::id()));
    Output::write_whole(&saved, bytes, false).ok().map(|()| saved)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unwritable_outputs_are_found_early() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("there"), "x").unwrap();
        #[cfg(unix)]
        std::os::unix::fs::symlink(path("there"), path("link")).unwrap();
        #[cfg(not(unix))]
        fs::hard_link(path("there"), path("link")).unwrap();
        for (outputs, force, message) in [
            (vec![path("there")], false, "already exists"),
            (vec![path("")], true, "not a regular file"),
            (vec![path("there"), path("link")], true, "two options write to"),
            (vec![path("none/x")], true, "does not exist"),
            (vec![path("there/x")], true, "is not a folder"),
            (vec![path("x"), path("x")], true, "two options write to"),
            (vec![PathBuf::from("-")], true, "cannot be written to stdout"),
        ] {
            let failure = check_outputs(&outputs, &[""; 0], force).unwrap_err();
            assert!(failure.to_string().contains(message), "{outputs:?}: {failure:?}");
        }
        let (there, new) = (path("there"), path("new"));
        let failure = check_outputs(&[&there], &[&there], true).unwrap_err();
        assert!(failure.to_string().ends_with("is also the input"), "{failure:?}");
        check_outputs(&[&there, &new], &[&new], true).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "the check leaves nothing behind");
    }

    #[test]
    fn results_that_cannot_be_written_are_saved_elsewhere() {
        let folder = tempfile::tempdir().unwrap();
        let there = folder.path().join("there");
        fs::write(&there, "old").unwrap();
        let failure = write_result(&there, b"new", false, folder.path()).unwrap_err();
        let hints = failure.hints();
        let hint = hints.last().unwrap().to_string();
        let saved = hint.strip_prefix("the result is in ").unwrap();
        assert_eq!((fs::read(saved).unwrap(), fs::read(&there).unwrap()), (b"new".to_vec(), b"old".to_vec()));
        fs::remove_file(saved).unwrap();
    }
}

//! Where commands write their results: checked before the work begins, and not lost after it.
//!
//! Every command calls [`check_outputs`] with all of its outputs before it opens a model or reads a weight,
//! and [`write_result`] for what exists in memory only.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use gguf::{Error, Output};

use super::write::check_output_name;
use crate::failure::Failure;

/// Fails unless every one of `outputs` can be written. Nothing is left behind.
///
/// It goes through the code that writes: each file is created under its temporary name and dropped again. So
/// what is found here is what [`Output::finish`] would find after hours of work.
///
/// # Errors
/// An output that exists without `force`, that is a folder or a device, whose folder is missing or cannot be
/// written, that is also one of `inputs`, or that two options name.
pub(in crate::commands) fn check_outputs(
    outputs: &[&Path],
    inputs: &[&Path],
    force: bool,
) -> Result<(), Failure> {
    for (index, path) in outputs.iter().enumerate() {
        check_output_name(path).map_err(Failure::usage)?;
        if outputs[..index].contains(path) {
            return Err(Failure::usage(format_args!("two options write {}", path.display())));
        }
        // With --force the input would be gone after the run, and a mapped input must not change during it.
        if inputs.iter().any(|input| is_same_file(input, path)) {
            return Err(Failure::at(path, "is an input of this command"));
        }
        check_output(path, 0, force)?;
    }
    Ok(())
}

/// Fails unless a file of `n_bytes` can be written at `path`: as [`check_outputs`] for a single file.
///
/// # Errors
/// As [`check_outputs`], and where the disk has no room for `n_bytes`.
pub(in crate::commands) fn check_output(path: &Path, n_bytes: u64, force: bool) -> Result<(), Failure> {
    let folder = folder_of(path);
    match fs::metadata(folder) {
        Ok(metadata) if metadata.is_dir() => {}
        Ok(_) => return Err(Failure::at(path, format_args!("`{}` is not a folder", folder.display()))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(Failure::at(path, format_args!("the folder `{}` does not exist", folder.display()))
                .hint(["make the folder first"]));
        }
        Err(error) => return Err(Failure::at(path, error)),
    }
    // Dropping an output that is not finished removes its temporary file.
    Output::create(path, n_bytes, force).map(drop).map_err(|error| output_failure(path, error))
}

/// Writes a small file whole or not at all. If that fails now, although [`check_outputs`] found nothing wrong
/// (the file has appeared meanwhile, the disk is full), the bytes are saved in the system's temporary folder and
/// the failure says where.
///
/// # Errors
/// What the system says, with the place where the result is.
pub(in crate::commands) fn write_result(path: &Path, bytes: &[u8], force: bool) -> Result<(), Failure> {
    let Err(error) = Output::write_whole(path, bytes, force) else { return Ok(()) };
    let saved = save_elsewhere(path, bytes);
    let hint = saved.map(|saved| format!("the result is in {}", saved.display()));
    Err(output_failure(path, error).hint(hint))
}

/// The failure of an output, with the path that the user gave and not the temporary one.
pub(in crate::commands) fn output_failure(path: &Path, error: Error) -> Failure {
    match error {
        Error::Exists { .. } => Failure::at(path, "exists already").hint(["replace it with --force"]),
        Error::NotAFile { .. } => Failure::at(path, "is not a plain file"),
        Error::Io { action, source, .. } => Failure::at(path, format_args!("cannot {action}: {source}")),
        error => Failure::at(path, error),
    }
}

fn save_elsewhere(path: &Path, bytes: &[u8]) -> Option<PathBuf> {
    let name = path.file_name()?.to_string_lossy();
    let saved = std::env::temp_dir().join(format!("gguf-tools-{}-{name}", std::process::id()));
    Output::write_whole(&saved, bytes, false).ok().map(|()| saved)
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Whether two paths lead to one file; false where one of them leads nowhere.
fn is_same_file(a: &Path, b: &Path) -> bool {
    matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_written_is_found_before_the_work() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("there"), "x").unwrap();
        for (outputs, force, message) in [
            (vec![path("there")], false, "exists already"),
            (vec![path("")], true, "is not a plain file"),
            (vec![path("none/x")], true, "does not exist"),
            (vec![path("there/x")], true, "is not a folder"),
            (vec![path("x"), path("x")], true, "two options write"),
            (vec![PathBuf::from("-")], true, "cannot go to stdout"),
        ] {
            let outputs: Vec<&Path> = outputs.iter().map(PathBuf::as_path).collect();
            let failure = check_outputs(&outputs, &[], force).unwrap_err();
            assert!(failure.message.contains(message), "{outputs:?}: {failure:?}");
        }
        let (there, new) = (path("there"), path("new"));
        let failure = check_outputs(&[&there], &[&there], true).unwrap_err();
        assert!(failure.message.ends_with("is an input of this command"), "{failure:?}");
        check_outputs(&[&there, &new], &[&new], true).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "the check leaves nothing behind");
    }

    #[test]
    fn results_that_cannot_be_written_are_saved_elsewhere() {
        let folder = tempfile::tempdir().unwrap();
        let there = folder.path().join("there");
        fs::write(&there, "old").unwrap();
        let failure = write_result(&there, b"new", false).unwrap_err();
        let saved = failure.hints.last().and_then(|hint| hint.strip_prefix("the result is in ")).unwrap();
        assert_eq!((fs::read(saved).unwrap(), fs::read(&there).unwrap()), (b"new".to_vec(), b"old".to_vec()));
        fs::remove_file(saved).unwrap();
    }
}

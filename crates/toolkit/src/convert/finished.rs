//! Outputs that an earlier run has finished.

use std::path::{Path, PathBuf};

use gguf_container::{File, Header, Mapped, Plan};
use gguf_conversion::PlannedFile;

use super::run_args::RunArgs;
use crate::error::Error;
use gguf_types::words;

/// The planned files as an earlier run has written them, if a run with `resume` finds all of them. None if there is work
/// to do.
///
/// Weights are not compared: equal headers have the same metadata, tensors and types. A calibration adds metadata and may
/// choose types, so only planned metadata and the names and shapes of tensors are compared for it.
///
/// # Errors
/// A file that differs from its plan.
pub fn finished(
    files: &[(PathBuf, &PlannedFile)],
    args: &RunArgs<'_>,
) -> Result<Option<Vec<PlannedFile>>, Error> {
    let paths: Vec<PathBuf> = files.iter().map(|(path, _)| path.clone()).collect();
    let has_work = !args.resume || args.force || args.dry_run || !args.parts.is_whole();
    if has_work || !paths.iter().all(|path| path.exists()) || gguf_conversion::unfinished(&paths).is_some() {
        return Ok(None);
    }
    let check = |(path, file): &(PathBuf, &PlannedFile)| {
        let failed = |error| Error::at(path, error);
        if file.plan.is_foreign() {
            return same_fixed_bytes(path, file);
        }
        let written = File::open(path).map_err(failed)?;
        let expected = Header::parse(file.plan.header_bytes()).map_err(failed)?;
        match difference(written.header(), &expected, args.gathers) {
            None => as_written(file, written.header()).map_err(failed),
            Some(difference) => {
                let message = format!("written with other options or from another input: {difference}");
                Err(Error::at(path, message).hint([words!("use [-force] to overwrite it")]))
            }
        }
    };
    files.iter().map(check).collect::<Result<_, _>>().map(Some)
}

/// The planned file, if the one at `path` has its length and headers.
fn same_fixed_bytes(path: &Path, file: &PlannedFile) -> Result<PlannedFile, Error> {
    let written = Mapped::open(path).map_err(|error| Error::at(path, error))?;
    let is_same = |(offset, bytes): (u64, &[u8])| {
        let range = offset as usize..(offset as usize).saturating_add(bytes.len());
        written.get(range) == Some(bytes)
    };
    if written.len() as u64 == file.plan.file_len() && file.plan.fixed_bytes().all(is_same) {
        return Ok(file.clone());
    }
    let message = "written with other options or from another input";
    Err(Error::at(path, message).hint([words!("use [-force] to overwrite it")]))
}

/// The first difference between a file and its plan.
fn difference(written: &Header, expected: &Header, is_calibrated: bool) -> Option<String> {
    let (tensors, planned) = (written.tensors(), expected.tensors());
    if tensors.len() != planned.len() {
        return Some(format!("expected {} tensors, found {}", planned.len(), tensors.len()));
    }
    for (found, wanted) in tensors.iter().zip(planned) {
        let name = &wanted.name;
        if found.name != *name {
            return Some(format!("expected tensor `{name}`, found `{}`", found.name));
        }
        if found.shape != wanted.shape {
            return Some(format!("tensor `{name}`: expected shape {}, found {}", wanted.shape, found.shape));
        }
        if found.dtype != wanted.dtype && !is_calibrated {
            let (wanted, found) = (wanted.dtype.name(), found.dtype.name());
            return Some(format!("tensor `{name}`: expected {wanted}, found {found}"));
        }
    }
    let other = expected.metadata().iter().find(|(key, value)| written.get(key) != Some(value));
    if let Some((key, _)) = other {
        return Some(format!("metadata key `{key}` differs"));
    }
    let extra = written.metadata().iter().find(|(key, _)| expected.get(key).is_none());
    match extra {
        Some((key, _)) if !is_calibrated => Some(format!("unexpected metadata key `{key}`")),
        None if is_calibrated => Some("it is not calibrated".to_owned()),
        _ => (written.endian() != expected.endian()).then(|| "its byte order differs".to_owned()),
    }
}

/// The planned file with the metadata and types of the written one.
fn as_written(file: &PlannedFile, written: &Header) -> Result<PlannedFile, gguf_container::Error> {
    let tensors = written.tensors().iter().map(|tensor| (tensor.name.clone(), tensor.shape, tensor.dtype));
    let mut file = file.clone();
    file.plan = Plan::new(written.metadata(), tensors.collect(), written.endian(), written.alignment())?;
    for (choice, tensor) in file.choices.iter_mut().zip(written.tensors()) {
        choice.dtype = tensor.dtype;
    }
    Ok(file)
}

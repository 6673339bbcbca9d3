//! New headers for files whose tensors are still valid.

use std::{
    fs,
    path::{Path, PathBuf},
};

use gguf_container::{Edit, File, Metadata, Slack, parse_shard_file_name, shard_file_name};

use super::digests::{is_descriptive, is_of_file};
use crate::{error::Error, events::Events};

/// Gives the file of these shards the descriptive metadata of `base`, and the name `path` (as for a single file). The result has the bytes of
/// a file that is made anew.
pub fn renew(
    paths: &[PathBuf],
    base: &Metadata,
    path: &Path,
    events: &dyn Events,
) -> Result<Vec<PathBuf>, Error> {
    let n_files = paths.len() as u32;
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let mut renewed = Vec::new();
    for (no, old) in (1..).zip(paths) {
        let is_shard =
            old.file_name().is_some_and(|name| parse_shard_file_name(&name.to_string_lossy()).is_some());
        let new =
            if is_shard { path.with_file_name(shard_file_name(&stem, no, n_files)) } else { path.to_owned() };
        // Only the first shard has the metadata of the model.
        if no == 1 {
            let failed = |error| Error::at(old, error);
            let opened = File::open(old).map_err(failed)?;
            let metadata = renewed_metadata(opened.metadata(), base);
            let edit = Edit::new(&opened, metadata, Slack::Use).map_err(failed)?;
            drop(opened);
            edit.write_new(old, &new, true).map_err(failed)?;
            events.status(format!("{}: new metadata, same tensors", new.display()));
            if new != *old {
                fs::remove_file(old).map_err(|error| Error::at(old, error))?;
            }
        } else if new != *old {
            fs::rename(old, &new).map_err(|error| Error::at(old, error))?;
        }
        renewed.push(new);
    }
    Ok(renewed)
}

/// The keys of the base in its order, with the values of the file for those that do not describe the model, and then the
/// keys about the file itself.
fn renewed_metadata(file: &Metadata, base: &Metadata) -> Metadata {
    let mut metadata = Metadata::new();
    for (key, value) in base.iter().filter(|(key, _)| !is_of_file(key)) {
        let value = if is_descriptive(key) { Some(value) } else { file.get(key) };
        if let Some(value) = value {
            metadata.set(key.clone(), value.clone());
        }
    }
    for (key, value) in file.iter().filter(|(key, _)| is_of_file(key)) {
        metadata.set(key.clone(), value.clone());
    }
    metadata
}

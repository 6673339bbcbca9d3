//! GGUF files that a caller names by files and folders.

use std::{
    collections::HashSet,
    fs,
    path::{Path, PathBuf},
};

use gguf_container::parse_shard_file_name;

use crate::{
    error::Error,
    input_kind::{self, Wanted},
    text::file_name,
};

/// The files that `paths` name, in their order. A folder stands for the GGUF files in it, sorted by name.
///
/// # Errors
/// A folder that cannot be read or has no GGUF file.
pub fn files_in(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Error> {
    let mut files = Vec::new();
    for path in paths {
        if path.is_dir() { files.extend(of_folder(path)?) } else { files.push(path.clone()) }
    }
    Ok(files)
}

/// As [`files_in`], with one file for each split model, which stands for all of its shards.
///
/// # Errors
/// As [`files_in`].
///
/// # Examples
/// ```
/// use gguf_toolkit::input_files::models_in;
///
/// let paths = ["a.gguf", "b-00001-of-00002.gguf", "b-00002-of-00002.gguf"].map(Into::into);
/// let models = models_in(&paths)?;
/// assert_eq!(models, paths[..2]);
/// # Ok::<(), gguf_toolkit::Error>(())
/// ```
pub fn models_in(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Error> {
    let mut known = HashSet::new();
    let mut files = files_in(paths)?;
    files.retain(|path| {
        let name = file_name(path);
        let shard = parse_shard_file_name(&name).filter(|(.., count)| *count > 1);
        shard.is_none_or(|(prefix, _, count)| {
            known.insert((path.parent().map(Path::to_owned), prefix.to_owned(), count))
        })
    });
    Ok(files)
}

fn of_folder(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let entries = fs::read_dir(folder).map_err(|error| Error::cannot_open(folder, error))?;
    let is_gguf = |path: &PathBuf| {
        path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gguf"))
            && !file_name(path).starts_with('.')
            && path.is_file()
    };
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(is_gguf).collect();
    if files.is_empty() {
        let advice = input_kind::advice(folder, Wanted::Gguf);
        return Err(Error::at(folder, "the folder has no GGUF file").hint(advice));
    }
    files.sort();
    Ok(files)
}

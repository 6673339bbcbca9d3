//! Links in a checkpoint folder: a downloaded folder must not make other files of this machine part of a
//! model.

use std::{fs, path::Path};

use crate::Error;

/// Refuses a file of the folder `dir` whose path contains a link to the outside, unless it leads to a blob of
/// a Hub cache (`models--OWNER--MODEL/blobs/`), like in snapshots and downloaded folders.
pub(crate) fn check(dir: &Path, name: &str) -> Result<(), Error> {
    let path = dir.join(name);
    let (Ok(folder), Ok(to)) = (fs::canonicalize(dir), fs::canonicalize(path)) else { return Ok(()) };
    if to.starts_with(&folder) || is_blob(&to) {
        return Ok(());
    }
    Err(Error::LinkOutside { file: name.to_owned(), to: to.display().to_string() })
}

/// True for the path of a file in a Hub cache.
fn is_blob(path: &Path) -> bool {
    let name =
        |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    path.parent().is_some_and(|blobs| {
        name(blobs) == "blobs" && blobs.parent().is_some_and(|model| name(model).starts_with("models--"))
    })
}

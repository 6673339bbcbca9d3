use std::{collections::BTreeMap, fs, path::Path, sync::Arc};

use gguf_container::{BrokenDownload, Mapped};

use crate::{Error, Part, links, part::Fetched};

/// Names of the plain files in a folder, sorted.
#[derive(Debug, Clone, Default)]
pub struct Listing {
    names: Vec<String>,
    fetched: BTreeMap<String, Arc<dyn Fetched>>,
}

impl Listing {
    /// Lists a folder; links count as their targets. Names that are not UTF-8 are skipped.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::NotAFolder`].
    pub fn of(dir: &Path) -> Result<Listing, Error> {
        let io = |error| Error::Io { file: ".".to_owned(), error };
        if !fs::metadata(dir).map_err(io)?.is_dir() {
            return Err(Error::NotAFolder);
        }
        let mut names = Vec::new();
        for entry in fs::read_dir(dir).map_err(io)? {
            let entry = entry.map_err(io)?;
            if let Ok(name) = entry.file_name().into_string()
                && fs::metadata(entry.path()).is_ok_and(|metadata| metadata.is_file())
            {
                names.push(name);
            }
        }
        names.sort();
        Ok(Listing { names, fetched: BTreeMap::new() })
    }

    /// Adds fetched files, which replace those of the same name.
    pub(crate) fn with(mut self, fetched: &BTreeMap<String, Arc<dyn Fetched>>) -> Listing {
        self.names.extend(fetched.keys().cloned());
        self.names.sort();
        self.names.dedup();
        Listing { fetched: fetched.clone(), ..self }
    }

    /// Opens a listed weights file of the folder `dir`.
    pub(crate) fn open(&self, dir: &Path, name: &str) -> Result<Part, Error> {
        if let Some(fetched) = self.fetched.get(name) {
            return Ok(Part::fetched(name.to_owned(), Arc::clone(fetched)));
        }
        links::check(dir, name)?;
        let io = |error| Error::Io { file: name.to_owned(), error };
        let mapped = Mapped::open(&dir.join(name)).map_err(io)?;
        if let Some(kind) = BrokenDownload::of(&mapped) {
            return Err(Error::BrokenDownload { file: name.to_owned(), kind });
        }
        Ok(Part::mapped(name.to_owned(), mapped))
    }

    /// The names, sorted by code points.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// True if there is a file of this name.
    pub fn has(&self, name: &str) -> bool {
        self.names.binary_search_by(|other| other.as_str().cmp(name)).is_ok()
    }

    /// Names with this prefix and suffix, sorted.
    pub fn matching(&self, prefix: &str, suffix: &str) -> Vec<String> {
        let matches = |name: &&String| name.starts_with(prefix) && name.ends_with(suffix);
        self.names.iter().filter(matches).cloned().collect()
    }
}

/// Folder and name of a file.
pub(crate) fn place_of(path: &Path) -> (&Path, String) {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    (dir, path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default())
}

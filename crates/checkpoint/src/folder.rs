//! A folder to be opened, on disk or with files located elsewhere.

use std::{
    any::Any,
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::{Error, FamilyForm, Listing, part::Fetched};

/// A checkpoint folder. Small files are on disk; weights files may be fetched when they are read.
#[derive(Debug, Clone)]
pub struct Folder {
    path: PathBuf,
    name: Option<String>,
    mistral: bool,
    unmasked_zeros: bool,
    config: Option<PathBuf>,
    forms: &'static [FamilyForm],
    fetched: BTreeMap<String, Arc<dyn Fetched>>,
    /// Keeps the folder's owner alive while the folder is used.
    _holds: Option<Arc<dyn Any + Send + Sync>>,
}

impl Folder {
    /// A folder on the disk.
    pub fn at(path: impl Into<PathBuf>) -> Folder {
        let (path, fetched) = (path.into(), BTreeMap::new());
        let (name, config, forms, _holds) = (None, None, &[], None);
        Folder { path, name, mistral: false, unmasked_zeros: false, config, forms, fetched, _holds }
    }

    /// Sets the model's name, if it differs from the folder's.
    pub fn named(self, name: impl Into<String>) -> Folder {
        Folder { name: Some(name.into()), ..self }
    }

    /// Adds weights files that are fetched; `holds` lives as long as the folder.
    #[cfg(feature = "remote")]
    pub(crate) fn with_fetched(
        self,
        fetched: BTreeMap<String, Arc<dyn Fetched>>,
        holds: Arc<dyn Any + Send + Sync>,
    ) -> Folder {
        Folder { fetched, _holds: Some(holds), ..self }
    }

    /// Selects Mistral's original layout (`consolidated*.safetensors`, `params.json`), even if the folder
    /// also contains another copy of the weights.
    pub fn mistral_format(self, mistral: bool) -> Folder {
        Folder { mistral, ..self }
    }

    /// Selects the meaning of GPTQ zeros with all bits set: one more than the largest code, like in the
    /// reference, instead of 0, like in the kernels.
    pub fn unmasked_zeros(self, unmasked_zeros: bool) -> Folder {
        Folder { unmasked_zeros, ..self }
    }

    /// Adds the tokenizer files of another folder, and its `config.json` if this folder does not have one.
    pub fn config_from(self, config: Option<PathBuf>) -> Folder {
        Folder { config, ..self }
    }

    /// Folder set by [`Folder::config_from`].
    pub(crate) fn config_folder(&self) -> Option<&Path> {
        self.config.as_deref()
    }

    /// Sets facts about families. Without them, weights written by MLX are read as stored, and the checkpoint
    /// gets a note.
    pub fn forms(self, forms: &'static [FamilyForm]) -> Folder {
        Folder { forms, ..self }
    }

    pub(crate) fn known_forms(&self) -> &'static [FamilyForm] {
        self.forms
    }

    /// True if GPTQ zeros are read like in the reference.
    pub(crate) fn wants_unmasked_zeros(&self) -> bool {
        self.unmasked_zeros
    }

    /// True if Mistral's original layout is selected.
    pub(crate) fn wants_mistral(&self) -> bool {
        self.mistral
    }

    /// A subfolder under the same name.
    pub(crate) fn subfolder(self, name: &str) -> Folder {
        Folder { name: Some(self.name()), path: self.path.join(name), ..self }
    }

    /// Path of its small files.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Default name of the model: last component of the given path, or of the resolved path for `.` and `..`.
    pub fn name(&self) -> String {
        let last = |dir: &Path| dir.file_name().map(|name| name.to_string_lossy().into_owned());
        let real = || last(&fs::canonicalize(&self.path).ok()?);
        self.name.clone().or_else(|| last(&self.path)).or_else(real).unwrap_or_default()
    }

    pub(crate) fn listing(&self) -> Result<Listing, Error> {
        Ok(Listing::of(&self.path)?.with(&self.fetched))
    }
}

impl<P: AsRef<Path> + ?Sized> From<&P> for Folder {
    fn from(path: &P) -> Folder {
        Folder::at(path.as_ref())
    }
}

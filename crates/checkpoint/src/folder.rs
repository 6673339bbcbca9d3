//! A folder that is to be opened: on the disk, or with files that are somewhere else.

use std::{
    any::Any,
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::{Error, FamilyForm, Listing, part::Fetched};

/// A checkpoint folder. Small files are on the disk; weights files may be fetched when they are read.
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

    /// The same under another name: that of the model, where the folder is called by something else.
    pub fn named(self, name: impl Into<String>) -> Folder {
        Folder { name: Some(name.into()), ..self }
    }

    /// The same with weights files that are fetched; `holds` lives as long as the folder does.
    #[cfg(feature = "remote")]
    pub(crate) fn with_fetched(
        self,
        fetched: BTreeMap<String, Arc<dyn Fetched>>,
        holds: Arc<dyn Any + Send + Sync>,
    ) -> Folder {
        Folder { fetched, _holds: Some(holds), ..self }
    }

    /// Returns the folder with Mistral's original layout (`consolidated*.safetensors`, `params.json`)
    /// selected, even if it also contains another copy of the weights.
    pub fn mistral_format(self, mistral: bool) -> Folder {
        Folder { mistral, ..self }
    }

    /// The same, of which GPTQ's zeros with all bits set are one more than the largest code, as in the reference, and not 0,
    /// as in the kernels.
    pub fn unmasked_zeros(self, unmasked_zeros: bool) -> Folder {
        Folder { unmasked_zeros, ..self }
    }

    /// The same with the tokenizer files of another folder, and with its `config.json` if this folder has none.
    pub fn config_from(self, config: Option<PathBuf>) -> Folder {
        Folder { config, ..self }
    }

    /// The folder of [`Folder::config_from`].
    pub(crate) fn config_folder(&self) -> Option<&Path> {
        self.config.as_deref()
    }

    /// The same, read with facts about families. Without them, weights written by MLX are read as they are stored, and the
    /// checkpoint gets a note.
    pub fn forms(self, forms: &'static [FamilyForm]) -> Folder {
        Folder { forms, ..self }
    }

    /// Facts about families.
    pub(crate) fn known_forms(&self) -> &'static [FamilyForm] {
        self.forms
    }

    /// True if GPTQ's zeros are read as in the reference.
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

    /// The name that stands for the model where nothing else says how it is called: the last of the path as it was given;
    /// that of the real folder where it is `.` or `..`.
    pub fn name(&self) -> String {
        let last = |dir: &Path| dir.file_name().map(|name| name.to_string_lossy().into_owned());
        let real = || last(&fs::canonicalize(&self.path).ok()?);
        self.name.clone().or_else(|| last(&self.path)).or_else(real).unwrap_or_default()
    }

    /// The names of its files.
    ///
    /// # Errors
    /// As [`Listing::of`].
    pub(crate) fn listing(&self) -> Result<Listing, Error> {
        Ok(Listing::of(&self.path)?.with(&self.fetched))
    }
}

impl<P: AsRef<Path> + ?Sized> From<&P> for Folder {
    fn from(path: &P) -> Folder {
        Folder::at(path.as_ref())
    }
}

//! LoRA adapters of an option, with their scales.

use std::{
    path::{Path, PathBuf},
    str::FromStr,
};

use gguf_checkpoint::{Checkpoint, Folder};
use gguf_container::{Metadata, Model};
use gguf_conversion::{
    ModelInput,
    merge::{LoraAdapter, adapter_name, merged_adapters},
};
use gguf_layout::Families;
use gguf_types::{Words, words};
use serde::{Deserialize, Serialize};

use crate::{
    error::Error,
    input_kind::{self, Wanted},
};

/// A LoRA adapter with a scale.
///
/// # Examples
/// ```
/// use gguf_toolkit::Adapter;
///
/// let adapter: Adapter = "my-adapter.gguf=0.5".parse()?;
/// assert_eq!(adapter.scale, 0.5);
/// # Ok::<(), String>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Adapter {
    /// Adapter file (GGUF); for checkpoints, a folder in the format of PEFT or mlx-lm, or `hf://OWNER/ADAPTER[@REVISION]`.
    #[serde(with = "crate::path_json::one")]
    pub path: PathBuf,
    /// Weight of the adapter; 1 as trained.
    #[serde(default = "as_trained", skip_serializing_if = "is_as_trained")]
    pub scale: f64,
}

fn as_trained() -> f64 {
    1.0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_as_trained(scale: &f64) -> bool {
    *scale == as_trained()
}

impl Adapter {
    /// An adapter as trained.
    pub fn new(path: impl Into<PathBuf>) -> Adapter {
        Adapter { path: path.into(), scale: as_trained() }
    }

    /// As an adapter of a diffusion model.
    pub(crate) fn of_diffusion(&self) -> LoraAdapter {
        let (folder, name) = (Folder::at(&self.path), self.path.clone());
        LoraAdapter { folder, name, scale: self.scale, takes_tokenizer: false }
    }
}

impl FromStr for Adapter {
    type Err = String;

    /// Reads `ADAPTER` or `ADAPTER=SCALE`. An existing file or folder may have any name.
    fn from_str(text: &str) -> Result<Adapter, String> {
        let whole = Adapter::new(text);
        let Some((adapter, scale)) = text.rsplit_once('=').filter(|_| !whole.path.exists()) else {
            return Ok(whole);
        };
        match scale.parse() {
            Ok(scale) if f64::is_finite(scale) => Ok(Adapter { scale, ..Adapter::new(adapter) }),
            _ => Err(format!("`{scale}` is not a number")),
        }
    }
}

/// A GGUF model with adapter files merged into it: GGUF files, or for a diffusion model the files that
/// [`Convert::adapters`](crate::Convert::adapters) takes.
///
/// # Errors
/// A file that is not an adapter of the model.
pub(crate) fn merged(families: Families, model: Model, adapters: &[Adapter]) -> Result<ModelInput, Error> {
    let is_diffusion = || {
        let shapes = model.tensors().map(|(_, tensor)| (tensor.name.as_str(), tensor.shape));
        families.diffusion_file(model.metadata(), shapes).is_some()
    };
    if !adapters.iter().all(|adapter| input_kind::is_gguf(&adapter.path)) && is_diffusion() {
        let adapters: Vec<LoraAdapter> = adapters.iter().map(Adapter::of_diffusion).collect();
        return ModelInput::new(families, model).with_diffusion_adapters(&adapters).map_err(Error::new);
    }
    let adapters: Vec<_> = adapters.iter().map(|adapter| (adapter.path.clone(), adapter.scale)).collect();
    let input = ModelInput::new(families, model).with_adapters(&adapters);
    input.map_err(|error| match error {
        gguf_conversion::Error::AdapterFile { path, error } => refused(&path, error),
        error => Error::new(error),
    })
}

/// The failure of a file that is not an adapter of the model, with advice.
pub(crate) fn refused(path: &Path, error: gguf_container::Error) -> Error {
    input_kind::explained(path, Wanted::Adapter, Error::at(path, error))
}

/// The base model that the config of an adapter names, if it is a local folder.
pub(crate) fn local_base(config: &serde_json::Value) -> Option<Folder> {
    let folder =
        PathBuf::from(config.get("base_model_name_or_path")?.as_str().filter(|name| !name.is_empty())?);
    folder.join("config.json").is_file().then(|| Folder::at(folder).forms(gguf_models::FORMS))
}

/// Opens the base model of an adapter. Weights are not needed; if they exist, shapes are compared.
///
/// # Errors
/// A folder that is not a checkpoint.
pub(crate) fn open_base(base: &Folder, options: &gguf_layout::Options) -> Result<Checkpoint, Error> {
    gguf_checkpoint::open(base.clone())
        .or_else(|_| gguf_checkpoint::open_without_weights(base.clone()))
        .map_err(gguf_conversion::Error::Source)
        .and_then(|base| gguf_conversion::normalized(base, options))
        .map_err(|error| Error::at(base.path(), error).hint(input_kind::advice(base.path(), Wanted::Base)))
}

/// Name and scale of an entry of [`merged_adapters`].
pub(crate) fn scaled(stated: &str) -> (&str, f64) {
    let scaled = stated.rsplit_once('=').and_then(|(name, scale)| Some((name, scale.parse().ok()?)));
    scaled.unwrap_or((stated, 1.0))
}

/// A warning about an adapter that was merged into the model already.
pub(crate) fn warning_of_merged(adapter: &gguf_container::Adapter, model: &Metadata) -> Option<Words> {
    let name = adapter_name(adapter.path());
    let is_merged = merged_adapters(model).iter().any(|stated| scaled(stated).0 == name);
    is_merged.then(|| words!("the model already contains adapter `{}`; [-lora] applies it again", name))
}

/// A warning about tensors of an adapter that are not used, if it has any.
pub(crate) fn warning_of_norms(adapter: &gguf_container::Adapter) -> Option<String> {
    if adapter.norms().is_empty() {
        return None;
    }
    let (path, norms) = (adapter.path().display(), gguf_types::list_names(adapter.norms()));
    Some(format!("adapter `{path}`: norms are ignored, as in llama.cpp: {norms}"))
}

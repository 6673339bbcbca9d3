//! Options of a publication.

use std::{
    num::NonZeroUsize,
    path::{Path, PathBuf},
};

use gguf_conversion::recipes::Recipe;
use gguf_quant::Level;
use gguf_runtime::{Activations, Options};
use serde::{Deserialize, Serialize};

use super::ladder::Ladder;
use crate::{calibration::CalibrationOptions, error::Error, eval_model::options};

/// Value of [`PublishOptions::chat_template`] for the template of the source.
pub const SOURCE_TEMPLATE: &str = "source";

/// Default limit of the chunks that are measured.
pub const CHUNKS: u32 = 40;

/// Default number of tokens of a chunk.
pub const CONTEXT: u32 = 512;

/// Default limit of a shard in bytes.
pub const SPLIT_MAX_SIZE: u64 = 48_000_000_000;

/// Options of a publication.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PublishOptions {
    /// Checkpoint folder, address of the Hub, or GGUF file.
    pub src: PathBuf,
    /// Folder to create or update.
    pub dir: PathBuf,
    /// File types to write; those of earlier runs are kept.
    #[serde(with = "crate::by_name::list")]
    pub types: Vec<&'static Recipe>,
    /// Predefined set of types. Default: small.
    pub ladder: Option<Ladder>,
    /// Memory sizes in bytes; the largest type that fits in each is written.
    pub fit: Vec<u64>,
    /// Tokens of context that `fit` includes. Default: 8192, or less if the model was trained for less.
    pub fit_context: Option<u64>,
    /// Texts to calibrate the files on, each like a quantization with a calibration. Default: those of the last run.
    pub calibrate: Vec<PathBuf>,
    /// Tokens to use of all calibration texts together. Default: that of the last run, or 16,384.
    pub calibration_tokens: Option<u32>,
    /// Do not calibrate, although the last run did.
    pub no_calibrate: bool,
    /// Sizes in bytes. Each adds a file whose tensor types are chosen for it, which needs a calibration.
    pub target_size: Vec<u64>,
    /// Files of earlier runs to remove, by the names of their types in the card.
    pub remove: Vec<String>,
    /// File with the chat template, which replaces the one of the source; `source` restores that one. Default: the template of
    /// the last run.
    pub chat_template: Option<PathBuf>,
    /// Name of the model, which replaces the one of the source.
    pub model_name: Option<String>,
    /// Checkpoint folders of draft models.
    pub draft: Vec<PathBuf>,
    /// Type of the file that the others are made from. Default: that of the checkpoint if it is a float type, otherwise bf16.
    #[serde(with = "crate::by_name::optional")]
    pub base_type: Option<&'static Recipe>,
    /// Texts or chats for the importance matrix. Default: those of the last run or of the calibration, or a small built-in text.
    pub imatrix_text: Vec<PathBuf>,
    /// Limit of the chunks of `imatrix_text`.
    pub imatrix_chunks: Option<u32>,
    /// Do not use an importance matrix.
    pub no_imatrix: bool,
    /// Texts to measure the files on. Default: those of the last run, or a small built-in text.
    pub eval_text: Vec<PathBuf>,
    /// Limit of the chunks of `eval_text`. Default: that of the last run, or 40.
    pub chunks: Option<u32>,
    /// Tokens of a chunk. Default: that of the last run, or 512.
    pub context: Option<u32>,
    /// Omit files that are both larger and worse than another file.
    pub drop_dominated: bool,
    /// Limit of a shard in bytes of tensor data. Default: that of the last run, or 48 GB.
    pub split_max_size: Option<u64>,
    /// Base model in the card, as OWNER/NAME. Default: the repository of the source.
    pub base_model: Option<String>,
    /// The repository that is published, as OWNER/NAME, for the commands in the card.
    pub repo: Option<String>,
    /// Publisher in the card.
    pub quantized_by: Option<String>,
    /// Remove the types of earlier runs that are not requested again.
    pub replace_types: bool,
    /// Overwrite files that were not written by an earlier run, or changed since.
    pub force: bool,
    /// Number of threads; `None` for one per core.
    pub threads: Option<NonZeroUsize>,
    /// Precision of activations. Default: that of the last run, or f32.
    pub activations: Option<Activations>,
    /// CPU level of the kernels. It has no serialized form.
    #[serde(skip)]
    pub level: Level,
    /// File of the program, whose checksum identifies the build; only the same build resumes an interrupted run.
    pub executable: Option<PathBuf>,
}

impl Default for PublishOptions {
    fn default() -> PublishOptions {
        PublishOptions::new("", "")
    }
}

impl PublishOptions {
    /// The default options for a source and a folder.
    pub fn new(src: impl Into<PathBuf>, dir: impl Into<PathBuf>) -> PublishOptions {
        PublishOptions {
            src: src.into(),
            dir: dir.into(),
            types: Vec::new(),
            ladder: None,
            fit: Vec::new(),
            fit_context: None,
            calibrate: Vec::new(),
            calibration_tokens: None,
            no_calibrate: false,
            target_size: Vec::new(),
            remove: Vec::new(),
            chat_template: None,
            model_name: None,
            draft: Vec::new(),
            base_type: None,
            imatrix_text: Vec::new(),
            imatrix_chunks: None,
            no_imatrix: false,
            eval_text: Vec::new(),
            chunks: None,
            context: None,
            drop_dominated: false,
            split_max_size: None,
            base_model: None,
            repo: None,
            quantized_by: None,
            replace_types: false,
            force: false,
            threads: None,
            activations: None,
            level: Level::detect(),
            executable: None,
        }
    }

    /// Limit of the chunks of the text that is measured.
    pub fn chunks(&self) -> usize {
        self.chunks.unwrap_or(CHUNKS) as usize
    }

    /// Options of the calibration of each file; none without texts.
    pub fn calibration(&self) -> Option<CalibrationOptions> {
        let default = CalibrationOptions::default();
        (!self.calibrate.is_empty()).then(|| CalibrationOptions {
            calibrate: self.calibrate.clone(),
            calibration_tokens: self.calibration_tokens.unwrap_or(default.calibration_tokens),
            // All files are measured later, on another text.
            no_verify: true,
            ..default
        })
    }

    /// Precision of activations.
    pub fn activations(&self) -> Activations {
        self.activations.unwrap_or_default()
    }

    /// Limit of a shard in bytes of tensor data.
    pub fn split_max_size(&self) -> u64 {
        self.split_max_size.unwrap_or(SPLIT_MAX_SIZE)
    }

    /// File with the chat template, unless the template of the source is wanted.
    pub fn template_file(&self) -> Option<&Path> {
        self.chat_template.as_deref().filter(|path| *path != Path::new(SOURCE_TEMPLATE))
    }

    /// Options for running models.
    pub fn run(&self) -> Options {
        options(self.threads, self.activations())
    }

    /// Types that are named, each once, or those of a ladder.
    ///
    /// # Errors
    /// None, unless a ladder holds an invalid name.
    pub fn named_types(&self) -> Result<Vec<&'static Recipe>, Error> {
        if !self.fit.is_empty() {
            return Ok(Vec::new());
        }
        let mut types: Vec<&'static Recipe> = Vec::new();
        for recipe in &self.types {
            if !types.iter().any(|known| known.canonical_name() == recipe.canonical_name()) {
                types.push(recipe);
            }
        }
        if types.is_empty() { self.ladder.unwrap_or(Ladder::Small).types() } else { Ok(types) }
    }

    /// Tokens of a chunk.
    pub fn context(&self) -> usize {
        self.context.unwrap_or(CONTEXT) as usize
    }

    /// Tokens that a budget is for, for a model that was trained for `trained` tokens, or an unknown number if that is 0.
    pub fn fit_context(&self, trained: u64) -> u64 {
        const USUAL: u64 = 8192;
        self.fit_context.unwrap_or(if trained > 0 { trained.min(USUAL) } else { USUAL })
    }

    /// Lengths of the context for the card: some usual ones up to what the model was trained for, and the requested one.
    pub fn contexts(&self, trained: u64) -> Vec<u64> {
        let usual = [4096, 8192, 32_768, 131_072];
        let mut contexts: Vec<u64> =
            usual.into_iter().filter(|context| trained == 0 || *context <= trained).collect();
        if contexts.is_empty() {
            contexts.push(trained);
        }
        contexts.extend(self.fit_context);
        contexts.sort_unstable();
        contexts.dedup();
        contexts
    }
}

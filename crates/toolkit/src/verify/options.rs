//! Options of a verification.

use std::{num::NonZeroUsize, path::PathBuf};

use gguf_quant::Level;
use serde::{Deserialize, Serialize};

use super::programs::Program;
use crate::adapter::Adapter;

/// A check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Which {
    /// Header, offsets, padding, shards.
    Structure,
    /// Finite scales, valid codes.
    Blocks,
    /// Keys and tensors that llama.cpp needs to load the file.
    Loader,
    /// Keys, tensors and shapes of the model.
    Architecture,
    /// Consistent lists, valid token IDs.
    Tokenizer,
    /// Chat templates that parse and render.
    Template,
    /// `general.file_type` matches the tensor types.
    FileType,
    /// Comparison with the source.
    Source,
}

impl Which {
    /// Every check with its name and a description.
    pub const ALL: &[(Which, &str, &str)] = &[
        (Which::Structure, "structure", "Header, offsets, padding, shards"),
        (Which::Blocks, "blocks", "Finite scales, valid codes"),
        (Which::Loader, "loader", "Keys and tensors that llama.cpp needs to load the file"),
        (Which::Architecture, "architecture", "Keys, tensors and shapes of the model"),
        (Which::Tokenizer, "tokenizer", "Consistent lists, valid token IDs"),
        (Which::Template, "template", "Chat templates that parse and render"),
        (Which::FileType, "file-type", "`general.file_type` matches the tensor types"),
        (Which::Source, "source", "Comparison with the source"),
    ];
}

/// Options of a verification.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct VerifyOptions {
    /// GGUF file, any shard of a split model, or a `Modelfile` of Ollama that names a file.
    pub file: PathBuf,
    /// Source of the file: a checkpoint folder, an address of the Hub or a GGUF file.
    pub against: Option<PathBuf>,
    /// Adapters that were merged into the source: adapter files for a GGUF source, folders or addresses for a checkpoint. For an
    /// adapter file: the folder that it was made from.
    pub adapters: Vec<Adapter>,
    /// The file has the tokenizer of the last adapter that has one.
    pub lora_tokenizer: bool,
    /// The checks to run. An empty list runs all.
    pub only: Vec<Which>,
    /// Programs that [`Which::Loader`] checks. An empty list checks llama.cpp, or ComfyUI-GGUF for diffusion models.
    pub programs: Vec<Program>,
    /// Treat warnings as errors.
    pub strict: bool,
    /// Number of threads; `None` for one per core.
    pub threads: Option<NonZeroUsize>,
    /// CPU level of the kernels.
    #[serde(skip, default = "Level::detect")]
    pub level: Level,
}

impl Default for VerifyOptions {
    fn default() -> VerifyOptions {
        VerifyOptions {
            file: PathBuf::new(),
            against: None,
            adapters: Vec::new(),
            lora_tokenizer: false,
            only: Vec::new(),
            programs: Vec::new(),
            strict: false,
            threads: None,
            level: Level::detect(),
        }
    }
}

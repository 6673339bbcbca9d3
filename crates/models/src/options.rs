//! Options for resolving a checkpoint.

use std::sync::Arc;

use serde_json::Value as Json;

/// Options for resolving a checkpoint.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// `general.name`, whatever the checkpoint says.
    pub model_name: Option<String>,
    /// `general.*` keys that win over what the checkpoint says, as a JSON object
    /// (`general.base_models` and `general.datasets` as arrays of objects).
    pub metadata_override: Option<Json>,
    /// `tokenizer.ggml.pre`, for a tokenizer that is not recognized.
    pub pre: Option<String>,
    /// Also stores the tokenizer's own file in the metadata.
    pub embed_tokenizer_json: bool,
    /// Make the scores of a llama tokenizer without tokenizer.model of its merges.
    pub scores_from_merges: bool,
    /// Also writes the final matrices of sentence-transformers.
    pub dense_modules: bool,
    /// The architecture, whatever class the config names: a name of [`ARCHES`](crate::ARCHES) or
    /// one of its class names.
    pub arch_as: Option<String>,
    /// Metadata only: no tensor is looked at, and the layout has none.
    pub vocab_only: bool,
    /// Treatment of MTP layers.
    pub prediction: Prediction,
    /// The model that a draft drafts for.
    pub target: Option<Arc<Target>>,
}

/// Treatment of MTP layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Prediction {
    /// They follow the others, where the checkpoint has them.
    #[default]
    With,
    /// They are left out.
    Without,
    /// The file has them alone, with embedding, last norm and output.
    Only,
}

/// Data of the target model of a draft: sizes and tokenizer.
#[derive(Debug, Clone, Default)]
pub struct Target {
    /// `config.json`.
    pub config: Json,
    /// `generation_config.json`, if there is one.
    pub generation_config: Option<Json>,
    /// Small files of its folder by name.
    pub files: Vec<(String, Vec<u8>)>,
}

//! What a person may choose about the resolving of a checkpoint.

use std::sync::Arc;

use serde_json::Value as Json;

/// What a person may choose.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// `general.name`, whatever the checkpoint says.
    pub model_name: Option<String>,
    /// `general.*` keys that win over what the checkpoint says, as a JSON object
    /// (`general.base_models` and `general.datasets` as arrays of objects).
    pub metadata_override: Option<Json>,
    /// `tokenizer.ggml.pre`, for a tokenizer that is not recognized.
    pub pre: Option<String>,
    /// Whether the tokenizer's own file goes into the metadata as well.
    pub embed_tokenizer_json: bool,
    /// Make the scores of a llama tokenizer without tokenizer.model of its merges.
    pub scores_from_merges: bool,
    /// Whether matrices of sentence-transformers behind a model that makes vectors of texts are written as well.
    pub dense_modules: bool,
    /// The architecture, whatever class the config names: a name of [`ARCHES`](crate::ARCHES) or
    /// one of its class names.
    pub arch_as: Option<String>,
    /// Metadata only: no tensor is looked at, and the layout has none.
    pub vocab_only: bool,
    /// What becomes of layers that predict more than the next token.
    pub prediction: Prediction,
    /// The model that a draft drafts for.
    pub target: Option<Arc<Target>>,
}

/// What becomes of layers that predict more than the next token.
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

/// What is taken of the model that a draft drafts for: its sizes and its tokenizer.
#[derive(Debug, Clone, Default)]
pub struct Target {
    /// `config.json`.
    pub config: Json,
    /// `generation_config.json`, if there is one.
    pub generation_config: Option<Json>,
    /// Small files of its folder by name.
    pub files: Vec<(String, Vec<u8>)>,
}

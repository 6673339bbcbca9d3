//! Options for resolving a checkpoint.

use std::sync::Arc;

use serde_json::Value as Json;

use crate::input::Target;
use crate::registry::Families;

/// Options for resolving a checkpoint.
#[derive(Debug, Clone)]
pub struct Options {
    /// The families of models to look for.
    pub families: Families,
    /// `general.name`, instead of the checkpoint's.
    pub model_name: Option<String>,
    /// Takes basename, fine tune, version and size label, and so the names of files, from `model_name` as well. The reference takes
    /// them from the model card or the folder.
    pub parts_from_name: bool,
    /// `general.*` keys that win over what the checkpoint says, as a JSON object
    /// (`general.base_models` and `general.datasets` as arrays of objects).
    pub metadata_override: Option<Json>,
    /// `tokenizer.ggml.pre`, for a tokenizer that is not recognized.
    pub pre: Option<String>,
    /// Also stores the tokenizer's own file in the metadata.
    pub embed_tokenizer_json: bool,
    /// Give all tokens of a llama tokenizer without tokenizer.model the same score, like the reference.
    pub equal_scores: bool,
    /// Also writes the final matrices of sentence-transformers.
    pub dense_modules: bool,
    /// The architecture, instead of the architecture of the class in the config: a name among [`Families::arches`] or
    /// one of its class names.
    pub arch_as: Option<String>,
    /// Metadata only: no tensor is looked at, and the layout has none.
    pub vocab_only: bool,
    /// Treatment of MTP layers.
    pub prediction: Prediction,
    /// The model that a draft drafts for.
    pub target: Option<Arc<Target>>,
}

impl Options {
    /// Defaults, for checkpoints of `families`.
    pub fn new(families: Families) -> Options {
        Options {
            families,
            model_name: None,
            parts_from_name: false,
            metadata_override: None,
            pre: None,
            embed_tokenizer_json: false,
            equal_scores: false,
            dense_modules: false,
            arch_as: None,
            vocab_only: false,
            prediction: Prediction::default(),
            target: None,
        }
    }

    /// Like this, for a model that the user named.
    #[must_use]
    pub fn named(self, model_name: Option<String>) -> Options {
        Options { parts_from_name: model_name.is_some(), model_name, ..self }
    }
}

/// Treatment of MTP layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Prediction {
    /// They follow the others, if the checkpoint has them.
    #[default]
    With,
    /// They are left out.
    Without,
    /// The file has only these, with embedding, last norm and output.
    Only,
}

//! Common imports, so that a model's file imports only its siblings.

pub use gguf_container::{Array, Value};
pub use gguf_types::Shape;
pub use serde_json::{Map, Value as Json, json};

pub use crate::arch::{Arch, Class, Computed, DECODER, Draft, Export, Packed, Predicted, ZERO_ROWS};
pub use crate::built_in::{
    BuiltIn, HAS_NO_STEP_LIMIT, HAS_NO_STEP_MINIMUM, HAS_NO_WINDOW, HAS_NO_WINDOW_SIZE, HAS_ONE_BASE,
    KEEPS_EXPERT_WEIGHTS, NORMALIZES_EXPERTS, ROTATES_ALL_PAIRS, WindowPattern, every, every_from_first,
};
pub use crate::config::classes::ConfigClass;
pub use crate::config::{Hparams, adjust};
pub use crate::departure::Departure;
pub use crate::error::{bad, bad_in, missing, missing_in};
pub use crate::file_keys::{FileKeys, kinds, set};
pub use crate::key_places::NO_TEMPLATE;
pub use crate::keys::{Keys, to_f32, to_i32, to_u32};
pub use crate::layout::{ElementMap, FloatType, Matrix, RowMap};
pub use crate::tensors::drops;
pub use crate::tensors::rules::{
    self, InLayers, Need, NumberRule, Reshape, RowRule, Scatter, TensorRule, Transposed,
};
pub use crate::text_keys::text_keys;
pub use crate::text_part::{text_config, text_key};
pub use crate::yarn::YarnScales;
pub use crate::{ArchError, Combination, Input, SourceTensor, pooling};
pub use gguf_tokenizer::huggingface::{
    BpeStyle, JsonLines, Route, SpecialOptions, SpecialsAfterPieces, SpmStyle, TokenizerWriter, VocabError,
};
pub use gguf_tokenizer::json::is_truthy;
pub use gguf_tokenizer::keys as token_keys;

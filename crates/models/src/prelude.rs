//! Common imports, so that a model's file imports only its siblings.

pub(crate) use gguf_container::{Array, Value};
pub(crate) use gguf_types::Shape;
pub(crate) use serde_json::{Map, Value as Json, json};

pub(crate) use crate::arch::{Arch, Class, Computed, DECODER, Draft, Export, Packed, Predicted};
pub(crate) use crate::built_in::{
    BuiltIn, HAS_NO_WINDOW, KEEPS_EXPERT_WEIGHTS, NORMALIZES_EXPERTS, WindowPattern, every, every_from_first,
};
pub(crate) use crate::config::classes::FieldDefault::{Bool, Float, Int, Null, Text};
pub(crate) use crate::config::classes::{
    BASE, BOOL, ConfigClass, DECODER_FIELDS, DICT, FLOAT, Field, Fill, INT, INTS, NULL, TEXT, TEXTS,
};
pub(crate) use crate::config::{Hparams, adjust};
pub(crate) use crate::error::{bad, missing};
pub(crate) use crate::file_keys::{FileKeys, kinds, set};
pub(crate) use crate::keys::{Keys, to_f32, to_i32, to_u32};
pub(crate) use crate::layout::{ElementMap, FloatType, Matrix, RowMap};
pub(crate) use crate::tensors::drops;
pub(crate) use crate::tensors::rules::{
    self, InLayers, Need, NumberRule, Reshape, RowRule, TensorRule, Transposed,
};
pub(crate) use crate::text_keys::text_keys;
pub(crate) use crate::text_part::{text_config, text_key};
pub(crate) use crate::{ArchError, Input, SourceTensor, pooling};
pub(crate) use gguf_tokenizer::huggingface::{
    BpeStyle, Route, SpecialOptions, SpecialsAfterPieces, SpmStyle, TokenizerWriter, VocabError,
};
pub(crate) use gguf_tokenizer::json::is_truthy;
pub(crate) use gguf_tokenizer::keys as token_keys;

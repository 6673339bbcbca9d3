//! Common imports, so that a family's file imports only its siblings.

pub(crate) use gguf_container::{Array, Value};
pub(crate) use gguf_types::Shape;
pub(crate) use serde_json::{Value as Json, json};

pub(crate) use crate::ArchError;
pub(crate) use crate::config::Hparams;
pub(crate) use crate::config::classes::FieldDefault::{Bool, Float, Int, Text};
pub(crate) use crate::config::classes::{BASE as CLASS, BOOL, ConfigClass, FLOAT, INT, INTS, TEXT};
pub(crate) use crate::error::{bad, missing, missing_in, missing_token};
pub(crate) use crate::keys::{Keys, to_f32, to_i32, to_u32};
pub(crate) use crate::layout::{ElementMap, FloatType, RowMap};
pub(crate) use crate::projector::parts;
pub(crate) use crate::projector::{
    AUDIO, BASE, PREPROCESSORS, Projector, Tower, Towers, VISION, count, tower_keys,
};
pub(crate) use crate::tensors::rules::{COLUMN, Need, Reshape, RowRule, TensorRule};

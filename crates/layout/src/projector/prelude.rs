//! Common imports, so that a family's file imports only its siblings.

pub use gguf_container::{Array, Value};
pub use gguf_types::Shape;
pub use serde_json::Value as Json;

pub use crate::ArchError;
pub use crate::combination::Combination;
pub use crate::config::Hparams;
pub use crate::config::classes::ConfigClass;
pub use crate::error::{bad, bad_in, missing, missing_in, missing_token};
pub use crate::keys::{Keys, to_f32, to_i32, to_u32};
pub use crate::layout::{ElementMap, FloatType, RowMap};
pub use crate::projector::parts;
pub use crate::projector::{AUDIO, BASE, PREPROCESSORS, Projector, Tower, Towers, VISION, count, tower_keys};
pub use crate::tensors::rules::{COLUMN, Need, Reshape, RowRule, TensorRule};

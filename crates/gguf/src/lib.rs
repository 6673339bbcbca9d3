//! The GGUF container: values, reading, planning, writing, file names, splits.
//!
//! This crate knows no model: a tensor is a name, a shape, a dtype and bytes.

mod map;
mod value;

pub use map::{Advice, Mapped};
pub use value::{Array, Metadata, Value, type_name};

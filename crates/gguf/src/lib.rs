//! The GGUF container: values, reading, planning, writing, file names, splits.
//!
//! This crate knows no model: a tensor is a name, a shape, a dtype and bytes.

mod value;

pub use value::{Array, Metadata, Value, type_name};

//! The dtype table of ggml and checked tensor shapes.
//!
//! This crate does no I/O and is independent of containers and models. All other crates compute sizes through
//! it, so that every size is checked.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr, clippy::exit))]
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

mod dtype;
mod forks;
pub mod half;
mod layer_names;
mod names;
mod problem;
mod shape;
mod stored_blocks;
mod words;

// Names the crate for its own derived implementations.
extern crate self as gguf_types;

pub use gguf_derive::Fields;

pub use dtype::{DType, DTypeError, REMOVED, Removed};
pub use forks::{FORK_TYPES, ForkType, fork_type};
pub use layer_names::layer_and_part;
pub use names::{and_more, counted, hex, list_names};
#[doc(hidden)]
pub use problem::derived;
pub use problem::{Facts, Fields, Problem};
pub use shape::{GGML_MAX_DIMS, MAX_DIMS, Shape, ShapeError, bits_per_weight};
pub use stored_blocks::StoredBlocks;
pub use words::{Part, Words};

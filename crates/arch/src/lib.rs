//! What a model is: one file for each architecture.
//!
//! This crate opens no file. It is given a checkpoint's config, tokenizer files and tensor
//! index ([`Input`]) and answers with a [`Layout`]: metadata, output tensors, and where the
//! rows of each come from.

mod input;
mod layout;
pub mod vocab;

pub use input::{Input, SourceTensor};
pub use layout::{Data, Dropped, ElementMap, Layout, OutTensor, RowMap, RowView};

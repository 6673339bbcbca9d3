//! What a model is: one file for each architecture.
//!
//! This crate opens no file. It is given a checkpoint's config, tokenizer files and tensor
//! index ([`Input`]) and answers with a [`Layout`]: metadata, output tensors, and where the
//! rows of each come from.
//!
//! An architecture is a row of [`ARCHES`]: class names, defaults of its config ([`classes`]), a
//! tensor table made of parts that architectures share ([`rules`]), the keys beyond the ones of
//! every text model, and the kinds of tokenizers that it comes with.

mod adapter;
mod config;
mod error;
pub mod export;
mod general;
mod input;
mod keys;
mod layout;
mod models;
mod naming;
mod pooling;
mod registry;
mod resolve;
mod rope_llama3;
mod tensors;
mod text_keys;
pub mod vocab;

pub use adapter::resolve_adapter;
pub use config::{Hparams, Rope, classes};
pub use error::ArchError;
pub use input::{Input, SameValues, SourceTensor};
pub use keys::Keys;
pub use layout::{Data, Dropped, ElementMap, Layout, Matrix, OutTensor, RowMap, RowView};
pub use naming::{adapter_file_name, default_file_name, vocab_file_name};
pub use registry::{ARCHES, Arch, Class, Computed, Export};
pub use resolve::{Options, resolve, resolve_weights};
pub use tensors::rules;

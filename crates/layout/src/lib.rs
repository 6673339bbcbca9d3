//! The engine of conversions: data types that describe a family of models, and the layout of a checkpoint that they lead
//! to.
//!
//! This crate opens no files and knows no family: callers pass in the rows of [`Families`] (those of this project are
//! in the crate `gguf-models`). From a checkpoint's config, tokenizer files and tensor index ([`Input`]) it
//! computes a [`Layout`]: metadata, output tensors, and the source of each tensor's rows.
//!
//! An architecture is a row ([`Arch`]): class names, defaults of its config ([`classes`]), a tensor table
//! made of shared parts ([`rules`]), its keys in addition to those of every text model, and the kinds of
//! tokenizers of its checkpoints.
//!
//! "The reference" is llama.cpp's converter with gguf-py, as vendored in llama-cpp-python 0.3.36, which reads
//! configs with transformers 5.23. `Source:` lines name a class or function and its file below that tree
//! (`conversion/llama.py`); this is the only place of the crate that states the version.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr, clippy::exit))]
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

mod adapter;
mod adapter_names;
mod arch;
pub mod built_in;
mod combination;
pub mod config;
mod dense_modules;
pub mod departure;
mod diffusers_layout;
mod diffusion;
mod diffusion_families;
mod diffusion_file;
mod diffusion_layout;
mod diffusion_parts;
mod error;
pub mod export;
mod file_keys;
mod foreign;
mod general;
mod ignored_keys;
mod input;
mod key_places;
mod keys;
pub mod late_keys;
mod layout;
mod leftovers;
mod legacy;
mod loadable;
pub mod loader;
mod model_keys;
mod mtp;
mod naming;
mod nearest;
mod needed;
mod options;
pub mod pooling;
mod prediction;
pub mod prelude;
pub mod projector;
pub mod quantile;
mod quantization;
mod registry;
mod resolve;
mod resolve_projector;
pub mod rope_llama3;
mod row_map;
mod saved_form;
mod source_rows;
mod spellings;
mod stored_blocks;
pub mod tensors;
pub mod text_keys;
mod text_part;
mod unknown;
mod unread_keys;
mod yarn;

pub use adapter::resolve_adapter;
pub use adapter_names::{AdapterName, AdapterRows, RowRange, adapter_names, original_names};
pub use arch::{Arch, Class, Computed, DECODER, Draft, Export, Packed, Predicted};
pub use combination::Combination;
pub use config::{Derived, Hparams, Rope, classes};
pub use departure::{Departed, Departure};
pub use diffusion::{DetectedDiffusion, Diffusion, DiffusionSource};
pub use diffusion_families::{FamilyFileError, read_diffusion};
pub use diffusion_file::DiffusionFile;
pub use diffusion_layout::{
    DiffusionClaims, DiffusionFloat, DiffusionLayout, DiffusionPart, ORIGINAL_SHAPE_KEY, find_diffusion,
    resolve_diffusion,
};
pub use diffusion_parts::{incomplete, unknown_parts};
pub use error::ArchError;
pub use file_keys::FileKeys;
pub use foreign::{ForeignFormat, ForeignLayout, ForeignType};
pub use ignored_keys::ignored_keys;
pub use input::{Elements, Input, Integers, SameValues, SourceTensor, Target, TensorValues, ZeroRows};
pub use keys::{FinishedKeys, KeySource, Keys};
pub use layout::{
    Data, Dropped, ElementMap, FloatType, Layout, Matrix, OutTensor, RowMap, RowView, UnreadKey,
};
pub use legacy::{DEFAULT_CONTEXT, DEFAULT_EPSILON, LegacyHeader, LegacyOptions, resolve_legacy};
pub use mtp::{mtp_layer_of, mtp_layers};
pub use naming::{
    adapter_file_name, default_file_name, prediction_file_name, projector_file_name, vocab_file_name,
};
pub use needed::lacking;
pub use options::{Options, Prediction};
pub use projector::WRITTEN as PROJECTOR_ARCHITECTURE;
pub use quantization::{CountedLayers, Quantization};
pub use registry::{Families, Wrapper};
pub use resolve::{resolve, resolve_as, resolve_weights, row_of};
pub use resolve_projector::resolve_projector;
pub use saved_form::{SavedForm, saved_form};
pub use source_rows::SourceRows;
pub use spellings::{TensorNames, shared_name, spellings};
pub use tensors::{AdapterScale, rules};

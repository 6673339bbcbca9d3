//! Formats of weights: from bytes on disk to tensor views.
//!
//! [`open`] reads a checkpoint folder: its config, its small files, the front matter of its model card and
//! the index of its tensors. Weights stay in memory maps until [`read_rows`] converts rows of one tensor to
//! `f32`. This crate is independent of models.
//!
//! Files are not trusted: every length is checked against the file before it is used, and every kind of
//! defect has its own [`Error`].
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr, clippy::exit))]
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

mod adapter;
mod card;
mod checkpoint;
mod codes;
mod dense;
mod diffusion;
mod dtype;
mod error;
mod family_form;
mod folder;
mod foreign;
mod formats;
mod ggml_legacy;
pub mod hub;
mod json;
mod links;
mod listing;
mod marked;
mod memory;
mod methods;
mod mlx_adapter;
mod part;
mod pickle_error;
mod read_error;
mod rows;
mod safetensors;
mod shards;
mod small_files;
mod stored;
mod tensor;
mod text_file;
mod torch;
mod training;
mod unread_files;
mod weights;
mod wrappers;
mod yaml;

pub use self::tensor::{Tensor, Tensors, View};
pub use adapter::{
    MLX_ADAPTER, is_adapter, open_adapter, open_adapter_for, open_diffusion_adapter, own_tokenizer,
    tokenizer_of,
};
pub use card::front_matter;
pub use checkpoint::{Checkpoint, open, open_without_weights};
pub use diffusion::{is_diffusion, open_diffusion};
pub use dtype::Dtype;
pub use error::Error;
pub use family_form::{FamilyForm, Folders, Marked, MarkingKey, MlxChange, SideFile};
pub use folder::Folder;
pub use foreign::{FOREIGN, Foreign};
pub use formats::{FORMATS, Format};
pub use ggml_legacy::{
    Blocks, Container, Hyperparameters, LegacyBlock, LegacyError, LegacyModel, LegacyTensor, is_legacy,
    open_legacy, parse_legacy, whisper_cpp_model,
};
pub use listing::Listing;
pub use memory::{Memory, MemoryTensor, open_memory};
pub use methods::{METHODS, Method, REFUSED, VARIANTS};
pub use part::{Part, SharedBytes, Span};
pub use pickle_error::{PickleError, ZipError};
pub use read_error::ReadError;
pub use rows::{read_columns, read_elements, read_regions, read_rows, read_runs};
pub use safetensors::safetensors_header;
pub use small_files::{MAX_FILE_BYTES, is_tokenizer_file};
pub use stored::{Region, Repacks, Stored};
pub use text_file::{is_text_file, open_text};
pub(crate) use weights::Weights;

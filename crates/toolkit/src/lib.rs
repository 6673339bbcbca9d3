//! The application layer of gguf-tools: every command as a function.
//!
//! The most common tasks are one call each:
//!
//! | call | task |
//! |---|---|
//! | [`open`] | reads a GGUF: metadata, tensors, their values on demand |
//! | [`Convert`] | converts a checkpoint, from a folder or the Hugging Face Hub, to GGUF files |
//! | [`Save`] | writes an in-memory state dict to GGUF files |
//! | [`Quantize`] | quantizes a GGUF file to other types |
//! | [`Convert::plan`] | lists what a conversion would write, without reading a weight |
//! | [`Writer`] | writes a GGUF file of one's own tensors and metadata |
//! | [`encode`], [`decode`] | rows of `f32` to blocks of any type, and back |
//! | [`perplexity()`], [`compare()`] | measure how well a file predicts a text, alone or against another file |
//! | [`Model`] | runs a file: tokens, chat templates, logits, text, embeddings and scores |
//! | [`types`], [`dtypes`], [`architectures`] | list what is supported |
//!
//! ```no_run
//! use gguf_toolkit::{Convert, FileType};
//!
//! # fn main() -> Result<(), gguf_toolkit::Error> {
//! let mut convert = Convert::new("Llama-3.2-1B", [FileType::Q4_K_M]);
//! convert.output.out = Some("llama-q4_k_m.gguf".into());
//! convert.run(&())?;
//! let file = gguf_toolkit::open("llama-q4_k_m.gguf")?;
//! for tensor in file.tensors() {
//!     println!("{} {} {:?}", tensor.name(), tensor.dtype(), tensor.shape());
//! }
//! # Ok(())
//! # }
//! ```
//!
//! The commands are functions with an options struct each. They report messages and progress to [`Events`] and return
//! values, which the programs print:
//!
//! | module | commands |
//! |---|---|
//! | [`mod@convert`] | `gguf-convert`, `gguf-quantize` |
//! | [`verify`], [`show`], [`diff`], [`hash`], [`export_metadata`], [`tokenizer`], [`fit`], [`recipe`] | `gguf-inspect`, without changing files |
//! | [`edit`], [`extract`], [`split`], [`merge`], [`endian`] | `gguf-inspect`, writing files |
//! | [`perplexity`](mod@perplexity), [`compare`](mod@compare), [`importance`], [`check`] | `gguf-eval` |
//! | [`run`] | `gguf-eval generate`, `embed` and `score`, `gguf-inspect prompt` |
//! | [`check_against`] | `gguf-eval check-against` |
//! | [`publish`] | `gguf-publish` |
//!
//! The crates below are re-exported, because these functions use their types.
#![cfg_attr(
    not(test),
    deny(
        clippy::print_stdout,
        clippy::print_stderr,
        clippy::exit,
        clippy::disallowed_methods,
        clippy::disallowed_types
    )
)]

mod blocks;
mod by_name;
pub mod calibration;
pub mod call;
mod cause;
pub mod chats;
pub mod check;
pub mod check_against;
pub mod compare;
pub mod convert;
pub mod copy_files;
pub mod coverage_report;
pub mod diff;
pub mod digest;
pub mod edit;
pub mod endian;
mod error;
pub mod eval_model;
mod events;
pub mod export_metadata;
pub mod extract;
mod failure;
mod fields;
mod file;
pub mod file_type;
pub mod fit;
pub mod hash;
mod hidden_files;
pub mod hints;
pub mod hub;
pub mod importance;
pub mod input_kind;
pub mod layout_notes;
pub mod loader_report;
pub mod loss_report;
pub mod merge;
pub mod metadata_json;
mod output_files;
pub mod outputs;
pub mod part_file;
pub mod path_json;
pub mod perplexity;
pub mod progress_line;
pub mod publish;
pub mod recipe;
pub mod recipe_file;
pub mod run;
mod serde_forms;
mod set;
pub mod settings;
pub mod show;
pub mod sizes;
pub mod split;
pub mod suggest;
pub mod table;
pub mod template_guard;
pub mod text;
pub mod text_file;
pub mod threads;
pub mod tokenizer;
pub mod unexecuted;
pub mod verify;
pub mod vocabularies;
pub mod writer;

pub use self::{
    blocks::{decode, encode, encode_weighted},
    cause::Cause,
    compare::{CompareOptions, compare},
    convert::{
        Convert, ConvertAdapter, ConvertLegacy, ConvertProjector, ConvertVocab, Export, Quantize, Save,
    },
    error::{Error, ErrorKind},
    events::{Events, Guard, Message, Progress, StatusLine},
    fields::Fields,
    file::{GgufFile, TensorRef, open},
    file_type::FileType,
    hub::is_hub_address,
    importance::{ImatrixOptions, imatrix},
    perplexity::{PerplexityOptions, perplexity},
    run::{
        Chat, ChatOptions, EmbedOptions, GenerateOptions, Model, RunOptions, ScoreOptions, TaskFile,
        TaskFormat, Text, TokenizeOptions,
    },
    writer::Writer,
};
// The crates themselves.
pub use {
    gguf_checkpoint as source, gguf_container as gguf, gguf_conversion as conversion, gguf_models as arch,
    gguf_quant as quant, gguf_runtime as eval, gguf_types as tensor,
};
// Types in the signatures of the calls.
pub use gguf_checkpoint::{Memory, MemoryTensor};
pub use gguf_container::{Array, Endian, Metadata, Plan, PlannedTensor, SplitLimits, Strings, Value};
pub use gguf_models::Arch;
pub use gguf_runtime::{Activations, perplexity::Perplexity, stats::Comparison};
pub use gguf_types::DType;

use ::gguf_conversion::recipes::{RECIPES, Recipe};

/// Every recipe of a [`FileType`]: `q4_k_m` and others.
pub fn types() -> &'static [Recipe] {
    RECIPES
}

/// Every type of a tensor, encodable or not ([`DType::is_encodable`]).
pub fn dtypes() -> &'static [DType] {
    DType::ALL
}

/// Every architecture that is converted.
pub fn architectures() -> &'static [Arch] {
    gguf_models::ARCHES
}

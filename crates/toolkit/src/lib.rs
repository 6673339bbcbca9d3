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
//! | [`Model`] | runs a file: tokens, chat templates, logits, text, chats, embeddings and scores |
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
//! | [`run`] | `gguf-eval chat`, `generate`, `embed` and `score`, `gguf-inspect prompt` |
//! | [`draft`](mod@draft) | `gguf-eval draft` |
//! | [`check_against`] | `gguf-eval check-against` |
//! | [`publish`] | `gguf-publish` |
//!
//! Types of the crates below that these functions take or return are re-exported: here, and by topic in [`architecture`],
//! [`source`], [`quant`], [`templates`] and [`process`].
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr, clippy::exit))]
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

/// The example of the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub mod adapter;
pub mod architecture_list;
#[cfg(feature = "clap")]
pub mod arguments;
mod blocks;
mod by_name;
pub mod calibration;
pub mod calibration_text;
pub mod call;
mod cause;
pub mod chats;
pub mod check;
pub mod check_against;
pub mod compare;
pub mod container_file;
pub mod convert;
pub mod copy_files;
pub mod coverage_report;
pub mod diff;
pub mod digest;
pub mod draft;
pub mod edit;
pub mod endian;
mod error;
pub mod eval_model;
mod events;
pub mod export_metadata;
pub mod extract;
mod failure;
mod file;
pub mod file_type;
pub mod fit;
pub mod hash;
mod hidden_files;
pub mod hub;
pub mod importance;
pub mod importance_table;
pub mod input_files;
pub mod input_kind;
pub mod layout_notes;
mod line_diff;
pub mod loader_report;
pub mod loss_report;
pub mod memory;
pub mod merge;
mod metadata_change;
pub mod metadata_json;
mod modelfile;
mod output_files;
pub mod outputs;
pub mod part_file;
pub mod path_json;
pub mod perplexity;
pub mod progress_line;
pub mod publish;
pub mod recipe;
pub mod recipe_file;
mod remote_headers;
pub mod run;
mod set;
pub mod settings;
pub mod show;
pub mod sizes;
pub mod split;
pub mod suggest;
mod summary;
pub mod table;
pub mod template_guard;
pub mod text;
pub mod text_file;
pub mod threads;
pub mod tokenizer;
mod totals;
pub mod unexecuted;
pub mod verify;
pub mod vocabularies;
pub mod writer;

pub use self::{
    adapter::Adapter,
    blocks::{decode, encode, encode_weighted},
    cause::Cause,
    compare::{CompareOptions, compare},
    convert::{
        Convert, ConvertAdapter, ConvertLegacy, ConvertProjector, ConvertVocab, Export, Quantize, Save,
        foreign_formats,
    },
    draft::{DraftOptions, draft},
    error::{Error, ErrorKind},
    events::{Events, Guard, Message, Progress, StatusLine},
    file::{GgufFile, TensorRef, open},
    file_type::FileType,
    hub::is_hub_address,
    importance::{ImatrixOptions, imatrix},
    perplexity::{PerplexityOptions, perplexity},
    run::{
        Chat, ChatOptions, ChatSession, ChatSessionOptions, EmbedOptions, GenerateOptions, Model, RunOptions,
        ScoreOptions, TaskFile, TaskFormat, Text, TokenizeOptions,
    },
    summary::{MemoryUse, Origin, Summary, TypeShare, summary},
    writer::Writer,
};
// Types in the signatures of the calls.
pub use gguf_checkpoint::{Memory, MemoryTensor};
pub use gguf_container::{
    Array, DEFAULT_ALIGNMENT, Endian, Metadata, PartNumber, Plan, PlannedTensor, SplitLimits, Strings, Value,
};
pub use gguf_conversion::{
    KeyOverride,
    imatrix::MissingPolicy,
    parts::Place,
    recipes::{Recipe, TensorType},
};
pub use gguf_imatrix::Format as ImatrixFormat;
pub use gguf_layout::{Arch, ForeignFormat};
pub use gguf_refinement::Steps;
pub use gguf_runtime::{
    Activations, chunks::Settings as ChunkSettings, perplexity::Perplexity, stats::Comparison,
};
pub use gguf_types::{DType, FORK_TYPES, Facts, ForkType, Part, Problem, Words, words};

/// Types of a table of an architecture, for programs that add one with [`convert::ArchOptions`].
pub mod architecture {
    pub use gguf_layout::{
        Arch, ArchError, Class, Computed, DECODER, Draft, Export, FileKeys, Hparams, Input, Keys, Packed,
        Predicted, SourceTensor, classes, rules,
    };
    pub use gguf_models::routes;
    pub use gguf_tokenizer::{Tokenizer, TokenizerFiles, huggingface as vocab};
}

/// Checkpoints: files and tensors, before they are converted.
pub mod source {
    pub use gguf_checkpoint::{Checkpoint, Dtype, Folder, SharedBytes, Tensor, View, open};
}

/// Codecs of tensor types, and the CPU levels that they run at.
pub mod quant {
    pub use gguf_quant::{CODECS, Codec, LEVEL_NAMES, LEVEL_VARIABLE, Level, codec};
}

/// Rendering of chat templates without a model.
pub mod templates {
    pub use gguf_runtime::chat::{Chat, ChatError, Date, Settings, SpecialTokens, render_chat};
}

/// Process-wide settings of the operating system, for programs. The library itself changes none of them.
pub mod process {
    #[cfg(unix)]
    pub use gguf_container::is_signal_ignored;
    pub use gguf_container::{exit_on_bus_error, raise_open_files, remove_temporary_files};
}

use ::gguf_conversion::recipes::RECIPES;

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

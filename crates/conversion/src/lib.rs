//! The pipeline: resolve a checkpoint, choose dtypes, plan the files, check them, write them.
//!
//! Each step takes the result of the previous one and never calls back: `gguf_checkpoint::open` returns a
//! checkpoint, `gguf_layout::resolve` a layout, a recipe the dtypes, [`gguf_container::Plan`] every offset.
//! Then [`run()`] only reads, encodes and writes rows. This crate does not print.
//!
//! [`Conversion`] connects the steps and is sufficient for most programs.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr, clippy::exit))]
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

mod adapter_input;
mod checkpoint_input;
mod compare;
mod conversion;
mod diffusion_input;
mod error;
pub mod export;
mod files;
mod finite;
mod foreign_input;
pub mod imatrix;
mod input;
mod job;
mod job_bytes;
mod journal;
mod key_override;
mod legacy_input;
mod losses;
pub mod merge;
mod model_input;
mod output;
pub mod parts;
mod planned;
mod prefetch;
mod prune;
pub mod recipes;
mod repack;
mod repair;
mod request;
mod resolve;
mod resume;
mod row_encoder;
mod rows;
mod run;
mod run_options;
mod targets;
mod unfinished;
mod verify;
mod vocab_only;

// Steps.
pub use compare::{Agreement, Distance, compare};
pub use conversion::{CheckedConversion, Conversion, PlannedConversion};
pub use error::Error;
pub use planned::{Choice, FileOf, PlannedFile};
// Inputs.
pub use adapter_input::AdapterInput;
pub use checkpoint_input::CheckpointInput;
pub use diffusion_input::{DiffusionInput, DiffusionOptions};
pub use foreign_input::ForeignInput;
pub use input::Input;
pub use legacy_input::LegacyInput;
pub use model_input::ModelInput;
pub use resolve::{arch_input, normalized, resolve, resolve_projector, target};
// Requests.
pub use key_override::KeyOverride;
pub use repack::Repacked;
pub use request::{Importance, OutputRequest, Request, Shards};
// Outputs.
pub use output::{check_output, check_output_file, output_path, real_output, write};
pub use vocab_only::{guessed_file_type, plan_vocab, write_vocab};
// Resuming.
pub use journal::{
    Done, Fingerprint, Found, InputFile, Journal, Origin, Remaining, Span, file_checksum, unfinished,
};
pub use resume::{Journaling, Resumed, check_unfinished, write_resumable};
pub use unfinished::Unfinished;
pub use verify::verify;
// Rows and jobs.
pub use losses::{Loss, Losses, is_nonzero_by_nature};

pub use job::{JOB_ELEMS, Job, Schedule, Target, TensorTask, Weights};
pub use row_encoder::{EncodedRows, RowEncoder};
pub use rows::{
    CheckpointRows, ColumnRows, GgufRows, Granularity, LegacyRows, RowSource, RowsFor, ValueRows,
};
pub use run::{Watch, run, run_with};
pub use run_options::{NonFinite, RunOptions};

//! The pipeline: resolve a checkpoint, choose dtypes, plan the file, run.
//!
//! Each step takes the value of the step before and never calls back: `source::open` gives a
//! checkpoint, `arch::resolve` a layout, a recipe the dtypes, [`gguf::Plan`] every offset; then
//! [`run`] reads, encodes and writes rows, and decides nothing. This crate prints nothing.

mod adapter;
mod columns;
mod error;
pub mod export;
mod files;
mod finite;
pub mod imatrix;
mod job;
mod key_override;
mod output;
mod packed;
mod plan;
mod prune;
mod quantize;
pub mod recipes;
mod request;
mod rows;
mod run;
mod vocab_only;

pub use adapter::{plan_adapter, resolve_adapter};
pub use columns::ColumnRows;
pub use error::Error;
pub use files::ones_for;
pub use job::{JOB_ELEMS, Job, Schedule, Target, Weights, Work};
pub use key_override::KeyOverride;
pub use output::{check_output, check_output_beside, output_path, write};
pub use packed::PackedRows;
pub use plan::{Choice, PlannedFile, arch_input, check_ready, file_type_name, plan_files, resolve, works};
pub use quantize::{check_quantized, model_tensors, plan_quantized, quantize_works};
pub use request::{Importance, Request, Shards};
pub use rows::{CheckpointRows, TensorRows};
pub use run::{NonFinite, RunOptions, Watch, run};
pub use vocab_only::{guessed_file_type, plan_vocab, write_vocab};

//! The GGUF container: values, reading, planning, writing, file names, splits.
//!
//! This crate is independent of models: a tensor is a name, a shape, a dtype and bytes.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr, clippy::exit))]
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

mod adapter;
mod broken_download;
mod check;
mod copies;
mod edit;
mod endian;
mod error;
mod key_types;
mod keys;
mod map;
mod metadata;
mod names;
mod output;
mod part_number;
mod plan;
mod read;
mod scales;
#[cfg(unix)]
mod signals;
mod split;
mod strings;
mod threads;
mod value;
mod write;

pub use adapter::{Adapter, AdapterPair};
pub use broken_download::BrokenDownload;
pub use check::{Finding, Severity, check, is_shard};
pub use copies::{CopyPlan, Ranks, SplitLimits, write_copies};
pub use edit::{Edit, SLACK_KEY, Slack, backup_path};
pub use endian::{Endian, swap_blocks};
pub use error::Error;
pub use key_types::{is_of_type, specified_type};
pub use keys::{ALIGNMENT_KEY, DEFAULT_ALIGNMENT, KeyProblem, MAX_KEY_BYTES, check_key};
pub use map::{Advice, Mapped, SparseFile, exit_on_bus_error, remove_temporary_files};
pub use metadata::{KeyError, Metadata};
pub use names::{
    FileName, Kind, NameParts, Sidecar, naming_convention, rounded_count, safe_file_name, size_label,
};
pub use output::{
    Claim, Leftover, LockedFile, Output, Share, check_open_files, check_space, hidden_path, is_alive,
    kept_name, raise_open_files, this_process,
};
pub use part_number::{NotAPartNumber, PartNumber};
pub use plan::{MAX_PLAN_ALIGNMENT, Plan, PlanWarning, PlannedTensor};
pub use read::{
    File, ForeignTensor, Header, MAGIC, MAX_ARRAY_DEPTH, MAX_REFERENCE_TENSOR_NAME_BYTES,
    MAX_TENSOR_NAME_BYTES, TensorInfo,
};
pub use scales::may_have_scale;
#[cfg(unix)]
pub use signals::is_signal_ignored;
pub use split::{
    Model, SPLIT_COUNT_KEY, SPLIT_NO_KEY, SPLIT_TENSORS_KEY, parse_shard_file_name, shard_file_name,
};
pub use strings::Strings;
pub use threads::{run_in_threads, start_threads};
pub use value::{Array, Value, type_name};

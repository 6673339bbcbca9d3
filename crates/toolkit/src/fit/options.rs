//! Options of an estimate.

use std::path::PathBuf;

use gguf_runtime::memory::Use;
use gguf_types::DType;
use serde::{Deserialize, Serialize};

use crate::by_name;

/// Options of an estimate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[serde(default, deny_unknown_fields)]
pub struct FitOptions {
    /// GGUF file, its address, a folder of such files, a checkpoint folder, or `hf://OWNER/MODEL[@REVISION]`.
    #[cfg_attr(feature = "clap", arg(skip))]
    pub path: PathBuf,
    /// Set the memory size, for example 16GB or 24GiB.
    ///
    /// Default: the memory of this machine, for which the speed is estimated too. The exit code is 1 if nothing fits.
    #[cfg_attr(feature = "clap", arg(long, value_name = "SIZE", value_parser = crate::sizes::parse_memory_size))]
    pub memory: Option<u64>,
    /// Set the context length, in tokens.
    ///
    /// A comma-separated list reports several lengths. Default: the length that the model was trained for, or the longest one that
    /// fits.
    #[cfg_attr(feature = "clap", arg(short, long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u64).range(1..)))]
    pub context: Vec<u64>,
    /// Run N sequences in parallel.
    #[cfg_attr(feature = "clap", arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u64).range(1..)))]
    pub parallel: u64,
    /// Set the type of the KV cache.
    #[cfg_attr(feature = "clap", arg(long, value_name = "TYPE", default_value = "f16", value_parser = crate::arguments::kv_type(), hide_possible_values = true))]
    #[serde(with = "by_name::single")]
    pub kv_type: DType,
    /// Process N tokens at a time.
    ///
    /// This is llama.cpp's `--ubatch-size`.
    #[cfg_attr(feature = "clap", arg(long, value_name = "N", default_value = "512", value_parser = clap::value_parser!(u64).range(1..)))]
    pub batch: u64,
    /// Also load this projector, draft model or adapter (repeatable).
    ///
    /// A draft model has its own KV cache and buffers for the same context. Of other files the weights are counted.
    #[cfg_attr(feature = "clap", arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath))]
    pub with: Vec<PathBuf>,
}

impl Default for FitOptions {
    fn default() -> FitOptions {
        let Use { parallel, batch, kv_type, .. } = Use::default();
        FitOptions {
            path: PathBuf::new(),
            memory: None,
            context: Vec::new(),
            parallel,
            kv_type,
            batch,
            with: Vec::new(),
        }
    }
}

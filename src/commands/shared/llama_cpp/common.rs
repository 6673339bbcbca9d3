//! The options that `llama-imatrix` and `llama-perplexity` share with all programs that run a model.

use super::program::{Row, To::*, row};

/// An option of `convert_hf_to_gguf.py` and `llama-gguf-split`, and its form with a value.
pub(super) const MAX_TENSORS: &str = "--split-max-tensors";
pub(super) const MAX_TENSORS_N: &str = "--split-max-tensors N";

pub(super) const ROWS: &[Row] = &[
    row(&["-h --help --usage"], Words(&["--help"])),
    row(&["--version"], Whole(&["--version"])),
    row(&["--completion-bash"], Whole(&["--completions", "bash"])),
    row(&["-m --model FILE"], Argument(0)),
    row(&["-f --file FILE", "-bf --binary-file FILE"], Option("--text", &[])),
    row(&["-c --ctx-size N"], Option("--context", &[])),
    row(&["--chunks N"], Option("--chunks", &["-1"])),
    row(&["-t --threads N"], Option("--threads", &["-1"])),
    row(&["--lora FILE"], Same),
    row(&["--log-disable"], Words(&["--quiet"])),
    row(&["--offline"], Anyway("files are not downloaded")),
];

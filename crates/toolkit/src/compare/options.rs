//! Options of a comparison.

use std::path::PathBuf;

use gguf_runtime::chunks::Settings;
use serde::{Deserialize, Serialize};

use crate::run::{RunOptions, Text};
/// Options of a comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CompareOptions {
    /// Base model, or saved logits of one.
    pub base: PathBuf,
    /// GGUF files to compare with it.
    pub files: Vec<PathBuf>,
    /// Text to measure on. None if the base is a file of logits, or to compare only tensors.
    pub text: Option<Text>,
    /// Chunks of the text.
    pub chunks: Settings,
    /// Number of prompts that all models continue greedily; `None` for none. The prompts have 64 tokens, the continuations 32.
    pub continuations: Option<usize>,
    /// Number of most likely tokens that are compared as sets.
    pub top_tokens: u32,
    /// Measure the quantization error of each tensor too.
    pub tensors: bool,
    /// Page with charts, which [`Compared::finish`](super::Compared::finish) writes.
    pub html: Option<PathBuf>,
    /// Table of the metrics in CSV, which [`Compared::finish`](super::Compared::finish) writes.
    pub csv: Option<PathBuf>,
    /// File for the logits of the base.
    pub save_logits: Option<PathBuf>,
    /// Overwrite existing outputs.
    pub force: bool,
    /// Options for running models.
    pub run: RunOptions,
    /// Folder for results whose file cannot be written. An empty path is the current folder.
    pub rescue: PathBuf,
}

impl Default for CompareOptions {
    fn default() -> Self {
        CompareOptions {
            base: PathBuf::new(),
            files: Vec::new(),
            text: None,
            chunks: Settings::default(),
            continuations: None,
            top_tokens: 10,
            tensors: false,
            html: None,
            csv: None,
            save_logits: None,
            force: false,
            run: RunOptions::default(),
            rescue: PathBuf::new(),
        }
    }
}

//! Tokenizers: Hugging Face files, the `tokenizer.*` keys of GGUF files, and token ids.
//!
//! This crate opens no files. [`huggingface`] makes keys of the files of a checkpoint, [`export`] makes such
//! files of keys, and [`Tokenizer`] encodes and decodes text with keys alone.
//!
//! "The reference" is llama.cpp's converter with gguf-py, as vendored in llama-cpp-python 0.3.36. `Source:` lines
//! name a class or function and its file below that tree (`conversion/llama.py`).
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

mod encode;
pub mod export;
mod files;
pub mod huggingface;
pub mod json;
pub mod keys;
mod pre;

pub use encode::{Error, Problem, Reading, Tokenizer, check};
pub use files::TokenizerFiles;

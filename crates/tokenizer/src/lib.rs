//! Tokenizers: Hugging Face files, the `tokenizer.*` keys of GGUF files, and token ids.
//!
//! This crate opens no files. A [`Tokenizer`] is read from the files of a checkpoint ([`huggingface`]) or from keys, and
//! written as keys or as such files ([`export`]). Its [`Encoder`] encodes and decodes text.
//!
//! ```
//! use gguf_tokenizer::huggingface::{Route, VocabContext};
//! use gguf_tokenizer::{Reading, Tokenizer, TokenizerFiles, keys};
//!
//! let json = br#"{
//!     "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
//!     "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]}
//! }"#;
//! let files = [("tokenizer.json".to_owned(), &json[..])];
//! let config = serde_json::Value::Null;
//! let files = TokenizerFiles { config: &config, generation_config: None, files: &files };
//! let tokenizer = Tokenizer::from_huggingface(&files, Route::GPT2, &VocabContext::default())?.tokenizer;
//! assert_eq!(tokenizer.to_gguf().text(keys::PRE)?, Some("gpt-2"));
//! assert_eq!(tokenizer.encoder(Reading::Model)?.encode("abb", false, false)?, [2, 1]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! "The reference" is llama.cpp's converter with gguf-py, as vendored in llama-cpp-python 0.3.36. `Source:` lines
//! name a class or function and its file below that tree (`conversion/llama.py`).
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr, clippy::exit))]
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

mod byte_alphabet;
mod encode;
pub mod export;
mod files;
pub mod huggingface;
pub mod json;
pub mod keys;
mod pre;
mod token_type;
mod tokenizer;

pub use encode::{Encoder, Error, Problem, Reading, check, doubts, missing_byte};
pub use files::TokenizerFiles;
pub use pre::names as pre_names;
pub use tokenizer::Tokenizer;

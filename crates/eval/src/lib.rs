//! Runs a GGUF from its own keys and tensors: the independent check of what was converted.
//!
//! This crate has never heard of safetensors, tokenizer.json or architectures as the converter
//! knows them; it reads GGUF only. It turns text into tokens ([`tokenize`]), runs them through a
//! [`Model`], measures how well they were predicted ([`perplexity`]), lets it speak ([`generate`],
//! [`chat`]), and makes vectors of texts ([`embed`]).

pub mod chat;
pub mod choice;
pub mod compare;
mod decoder;
pub mod embed;
mod error;
pub mod generate;
mod graph;
pub mod importance;
mod keys;
pub mod logits_file;
mod model;
mod models;
mod ops;
pub mod perplexity;
pub mod report;
pub mod stats;
pub mod tensor_error;
pub mod tokenize;
mod weights;

pub use error::Error;
pub use model::{Activations, Features, Hidden, Model, Observer, Options, Part, Session, Window};
pub use models::architectures;

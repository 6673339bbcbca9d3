//! Runs a GGUF from its own keys and tensors: the independent check of what was converted.
//!
//! This crate has never heard of safetensors or architectures as the converter knows them; it reads
//! GGUF only. It turns text into tokens ([`gguf_tokenizer`]), runs them through a [`Model`], measures
//! how well they were predicted ([`perplexity`]), generates text ([`generate`], [`chat`]), computes
//! embeddings of texts ([`embed`]), and turns pictures ([`vision`]) and sounds ([`audio`]) into model inputs.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr, clippy::exit))]
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

mod architecture;
pub mod audio;
pub mod chat;
pub mod choice;
pub mod chunks;
mod classifier;
pub mod compare;
pub mod continuations;
pub mod cross_attention;
mod decoder;
mod dense;
pub mod draft;
mod draft_graph;
pub mod embed;
mod error;
mod exact_sum;
pub mod generate;
mod graph;
pub mod graphs;
mod hidden;
pub mod importance;
mod keys;
pub mod logits_file;
pub mod memory;
mod model;
mod nonfinite;
mod observer;
mod ops;
mod pass;
pub mod perplexity;
mod pooling;
pub mod report;
mod session;
mod state_size;
pub mod stats;
mod steps;
pub mod tensor_error;
mod threads;
mod tiles;
pub mod vision;
mod weights;

pub use architecture::{Architecture, Graphs};
pub use error::Error;
pub use hidden::Hidden;
pub use model::{Model, Options, check_parts};
pub use observer::{Multiplied, Observer, Part};
pub use session::{Activations, Embedding, Features, Piece, Sequence, Session};
pub use state_size::StateSize;
pub use steps::{Between, BetweenShapes, Steps};
pub use threads::thread_pool;

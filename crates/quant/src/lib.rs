//! Block formats of ggml and their kernels.
//!
//! This crate knows no file: rows of `f32` go in, blocks come out, and the other way round.
//! `CODECS` is the feature list; one folder for each type, `scalar.rs` states the meaning.
//!
//! The promise: bytes equal to `ggml_quantize_chunk` of llama.cpp (as vendored in
//! llama-cpp-python 0.3.36) built without floating-point contraction.

mod block;
mod codec;
mod fit;
mod level;
pub mod round;

pub use codec::{CODECS, Codec, EncodeError, Rows, codec, decode, encode};
pub use level::Level;

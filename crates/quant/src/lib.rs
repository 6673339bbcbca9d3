//! Block formats of ggml and their kernels.
//!
//! This crate converts rows of `f32` to blocks and back, without file access. `CODECS` is the feature list.
//! Each type has a folder or file; `scalar.rs` is the definition.
//!
//! Guarantee: bytes equal to `ggml_quantize_chunk` of llama.cpp (as vendored in llama-cpp-python 0.3.36)
//! built without floating-point contraction.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr, clippy::exit))]
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]
#![expect(clippy::needless_range_loop, reason = "kernels walk several arrays by one index")]

mod bf16;
mod block;
pub mod codebook;
mod codec;
mod e2m1;
mod f16;
mod f32;
mod fit;
pub mod frozen;
mod grids;
mod integers;
mod iq1_m;
mod iq1_s;
mod iq2_s;
mod iq2_xs;
mod iq2_xxs;
mod iq3_s;
mod iq3_xxs;
mod iq4_nl;
mod iq4_xs;
mod iq_fit;
mod k_scales;
mod lanes;
mod level;
mod magnitude;
mod mxfp4;
mod nibbles;
mod nvfp4;
mod q1_0;
mod q2_0;
mod q2_k;
mod q3_k;
mod q4_0;
mod q4_1;
mod q4_k;
mod q4_q5;
mod q4_q5_k;
mod q5_0;
mod q5_1;
mod q5_k;
mod q6_k;
mod q8_0;
mod q8_1;
mod q8_k;
pub mod round;
mod tq1_0;
mod tq2_0;
mod two_bits;
mod usual_error;
mod valid;

pub use codec::{CODECS, Codec, CodecError, Rows, Search, codec, decode, encode};
pub use integers::{IntegerBlocks, IntegerForm, decode_integers, integer_form};
pub use level::{LEVEL_NAMES, LEVEL_VARIABLE, Level, Vectors};
pub use magnitude::first_large_value;
pub use usual_error::{split_mix, usual_error};
pub use valid::{BadBlock, BlockProblem, first_bad_block, half_scales};

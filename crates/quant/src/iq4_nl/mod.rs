//! IQ4_NL: 4-bit indices into a table of 16 unevenly spaced values, one scale for 32.
//!
//! ```text
//! 0     2                                       18
//! +-----+---------------------------------------+
//! | d   | 16 x u8: element i in the low nibble, |
//! | f16 | element i + 16 in the high one        |
//! +-----+---------------------------------------+
//! ```
//!
//! `x = d * table[index]`, table: [`crate::grids::IQ4_VALUES`]. Multi-byte numbers are little-endian.
//!
//! Source: `block_iq4_nl` in `ggml/src/ggml-common.h`, `quantize_iq4_nl` and `dequantize_row_iq4_nl` in
//! `ggml/src/ggml-quants.c` of llama.cpp (as vendored in llama-cpp-python 0.3.36).

mod decode;
mod frozen;
mod lanes;
mod scalar;

pub use frozen::Block;

/// Bytes in a block of 32 elements.
const BYTES: usize = 18;

crate::block::codec! {
    IQ4_NL [32, BYTES], needs_weights: false, search: Always, encode: blocks, decode: lanes
}

//! IQ2_S: groups of eight magnitudes from a codebook of 1024 points, all signs, a 4-bit scale for 16.
//!
//! ```text
//! 0     2             34           66              74          82
//! +-----+-------------+------------+---------------+-----------+
//! | d   | indices     | signs      | high bits     | scales    |
//! | f16 | 32 low u8   | 32 x u8    | 32 x 2 bits   | 16 nibbles|
//! +-----+-------------+------------+---------------+-----------+
//! ```
//!
//! `x = d * (scale + 1/2) / 4 * magnitude * sign`, magnitude in {8, 25, 43}. Multi-byte numbers are little-endian.
//!
//! Source: `block_iq2_s` in `ggml/src/ggml-common.h`, `quantize_iq2_s` and `dequantize_row_iq2_s` in
//! `ggml/src/ggml-quants.c` of llama.cpp (as vendored in llama-cpp-python 0.3.36).

mod codebook_block;
mod scalar;

pub use codebook_block::Block;

/// Bytes in a block of 256 elements.
const BYTES: usize = 82;

crate::block::codec! {
    IQ2_S [256, BYTES], needs_weights: false, search: Always, encode: codebook, decode: codebook
}

//! IQ3_S: magnitudes in fours from a codebook of 512 points, all signs, a 4-bit scale for 32.
//!
//! ```text
//! 0     2             66             74         106         110
//! +-----+-------------+--------------+----------+-----------+
//! | d   | indices     | high bits    | signs    | scales    |
//! | f16 | 64 low u8   | 64 x 1 bit   | 32 x u8  | 8 nibbles |
//! +-----+-------------+--------------+----------+-----------+
//! ```
//!
//! `x = d * (2 * scale + 1) * magnitude * sign`, magnitude in {1, 3, ... 15}. Multi-byte numbers are little-endian.
//!
//! Source: `block_iq3_s` in `ggml/src/ggml-common.h`, `quantize_iq3_s` and `dequantize_row_iq3_s` in
//! `ggml/src/ggml-quants.c` of llama.cpp (as vendored in llama-cpp-python 0.3.36).

mod codebook_block;
mod scalar;

pub use codebook_block::Block;

/// Bytes in a block of 256 elements.
const BYTES: usize = 110;

crate::block::codec! {
    IQ3_S [256, BYTES], needs_weights: false, search: Always, encode: codebook, decode: codebook
}

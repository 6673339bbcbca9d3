//! IQ3_XXS: magnitudes in fours from a codebook of 256 points, signs with even parity, a 4-bit scale for 32.
//!
//! ```text
//! 0     2           66                                  98
//! +-----+-----------+-----------------------------------+
//! | d   | indices   | 8 x u32                           |
//! | f16 | 64 x u8   | 4 x 7 signs, 4-bit scale on top   |
//! +-----+-----------+-----------------------------------+
//! ```
//!
//! `x = d * (scale + 1/2) / 2 * magnitude * sign`, magnitude in {4, 12, ... 52, 62}. Multi-byte numbers are little-endian.
//!
//! Source: `block_iq3_xxs` in `ggml/src/ggml-common.h`, `quantize_iq3_xxs` and `dequantize_row_iq3_xxs` in
//! `ggml/src/ggml-quants.c` of llama.cpp (as vendored in llama-cpp-python 0.3.36).

mod codebook_block;
mod scalar;

pub use codebook_block::Block;

/// Bytes in a block of 256 elements.
const BYTES: usize = 98;

crate::block::codec! {
    IQ3_XXS [256, BYTES], needs_weights: false, search: Always, encode: codebook, decode: codebook
}

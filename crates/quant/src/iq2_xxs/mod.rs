//! IQ2_XXS: groups of eight magnitudes from a codebook of 256 points, signs with even parity, a 4-bit scale for 32.
//!
//! ```text
//! 0     2                                                66
//! +-----+------------------------------------------+
//! | d   | 8 x (32-bit indices, 32-bit word)        |
//! | f16 | 4 x u8 | 4 x 7 signs, 4-bit scale on top |
//! +-----+------------------------------------------+
//! ```
//!
//! `x = d * (scale + 1/2) / 4 * magnitude * sign`, magnitude in {8, 25, 43}. Multi-byte numbers are little-endian.
//!
//! Source: `block_iq2_xxs` in `ggml/src/ggml-common.h`, `quantize_iq2_xxs` and `dequantize_row_iq2_xxs` in
//! `ggml/src/ggml-quants.c` of llama.cpp (as vendored in llama-cpp-python 0.3.36).

mod codebook_block;
mod scalar;

pub use codebook_block::Block;

/// Bytes in a block of 256 elements.
const BYTES: usize = 66;

crate::block::codec! {
    IQ2_XXS [256, BYTES], needs_weights: true, search: Always, encode: codebook, decode: codebook
}

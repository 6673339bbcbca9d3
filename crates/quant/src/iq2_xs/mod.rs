//! IQ2_XS: groups of eight magnitudes from a codebook of 512 points, signs with even parity, a 4-bit scale for 16.
//!
//! ```text
//! 0     2                          66            74
//! +-----+--------------------------+-------------+
//! | d   | 32 x u16                 | scales      |
//! | f16 | 9-bit index, 7 signs     | 16 nibbles  |
//! +-----+--------------------------+-------------+
//! ```
//!
//! `x = d * (scale + 1/2) / 4 * magnitude * sign`, magnitude in {8, 25, 43}. Multi-byte numbers are little-endian.
//!
//! Source: `block_iq2_xs` in `ggml/src/ggml-common.h`, `quantize_iq2_xs` and `dequantize_row_iq2_xs` in
//! `ggml/src/ggml-quants.c` of llama.cpp (as vendored in llama-cpp-python 0.3.36).

mod codebook_block;
mod scalar;

pub use codebook_block::Block;

/// Bytes in a block of 256 elements.
const BYTES: usize = 74;

crate::block::codec! {
    IQ2_XS [256, BYTES], needs_weights: true, search: Always, encode: codebook, decode: codebook
}

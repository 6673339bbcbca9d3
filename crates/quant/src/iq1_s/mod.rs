//! IQ1_S: groups of eight ternary levels from a codebook of 2048 points, a 3-bit scale and a shift for 32.
//!
//! ```text
//! 0     2             34                                  50
//! +-----+-------------+-----------------------------------+
//! | d   | indices     | 8 x u16: 4 x 3 high bits,         |
//! | f16 | 32 low u8   | 3-bit scale, top bit: shift down  |
//! +-----+-------------+-----------------------------------+
//! ```
//!
//! `x = d * (2 * scale + 1) * (level +- 1/8)`, level in {-1, 0, 1}. Multi-byte numbers are little-endian.
//!
//! Source: `block_iq1_s` in `ggml/src/ggml-common.h`, `quantize_iq1_s` and `dequantize_row_iq1_s` in
//! `ggml/src/ggml-quants.c` of llama.cpp (as vendored in llama-cpp-python 0.3.36).

mod decode;
mod lanes;
mod scalar;

/// Bytes in a block of 256 elements.
const BYTES: usize = 50;

crate::block::codec! {
    IQ1_S [256, BYTES], needs_weights: true, search: Always, encode: blocks, decode: lanes
}

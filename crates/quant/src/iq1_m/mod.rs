//! IQ1_M: groups of eight ternary levels from a codebook of 2048 points, a shift for 8, a 3-bit scale for 16.
//!
//! ```text
//! 0             32                            48                                 56
//! +-------------+-----------------------------+----------------------------------+
//! | indices     | 32 nibbles: 3 high bits,    | 4 x u16: 4 x 3-bit scale,        |
//! | 32 low u8   | top bit: shift down         | on top a nibble of d (f16)       |
//! +-------------+-----------------------------+----------------------------------+
//! ```
//!
//! `x = d * (2 * scale + 1) * (level +- 1/8)`, level in {-1, 0, 1}. Multi-byte numbers are little-endian.
//!
//! Source: `block_iq1_m` in `ggml/src/ggml-common.h`, `quantize_iq1_m` and `dequantize_row_iq1_m` in
//! `ggml/src/ggml-quants.c` of llama.cpp (as vendored in llama-cpp-python 0.3.36).

mod decode;
mod lanes;
mod scalar;
mod split_lanes;

/// Bytes in a block of 256 elements.
const BYTES: usize = 56;

crate::block::codec! {
    IQ1_M [256, BYTES], needs_weights: false, search: Always, encode: blocks, decode: lanes
}

//! IQ4_XS: 4-bit indices into a table of 16 unevenly spaced values, a 6-bit scale for 32.
//!
//! ```text
//! 0     2          4            8                                     136
//! +-----+----------+------------+-------------------------------------+
//! | d   | scales   | scales     | 8 x 16 x u8: element i in the low   |
//! | f16 | 8 x 2    | 8 low      | nibble, element i + 16 in the high  |
//! |     | high bits| nibbles    | one                                 |
//! +-----+----------+------------+-------------------------------------+
//! ```
//!
//! `x = d * (scale - 32) * table[index]`, table: [`crate::grids::IQ4_VALUES`]. Multi-byte numbers are little-endian.
//!
//! Source: `block_iq4_xs` in `ggml/src/ggml-common.h`, `quantize_iq4_xs` and `dequantize_row_iq4_xs` in
//! `ggml/src/ggml-quants.c` of llama.cpp (as vendored in llama-cpp-python 0.3.36).

mod decode;
mod frozen;
mod lanes;
mod scalar;

pub use frozen::Block;

/// Bytes in a block of 256 elements.
const BYTES: usize = 136;

crate::block::codec! {
    IQ4_XS [256, BYTES], needs_weights: false, search: Always, encode: blocks, decode: lanes
}

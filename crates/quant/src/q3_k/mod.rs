//! Q3_K: 256 elements in 16 sub-blocks of 16, `x = d * (scale - 32) * (q - 4)`.
//!
//! ```text
//! byte  0                     32                    96                    108    110
//!       hmask: bit b of byte  qs: the low 2 bits,   scales: 16 of 6 bits  d f16
//!       i is bit 2 of         in Q2_K's layout      see below
//!       q[32 * b + i]
//! ```
//!
//! The low 4 bits of scales 0 to 7 are in the low halves of `scales[0..8]`, those of scales 8 to 15 in the high
//! halves; the upper 2 bits of scale `j` are in `scales[8 + j % 4]` at bit `2 * (j / 4)`.
//!
//! Source: `block_q3_K` in `ggml/src/ggml-common.h`; `quantize_row_q3_K_ref`, `quantize_row_q3_K_impl` and
//! `dequantize_row_q3_K` in `ggml/src/ggml-quants.c`.

mod decode;
mod frozen;
mod lanes;
mod scalar;

pub use frozen::Block;

crate::block::codec! {
    Q3_K [scalar::ELEMS, scalar::BYTES], needs_weights: false, search: Always, encode: blocks, decode: lanes
}

//! Q2_K: 256 elements in 16 sub-blocks of 16, `x = d * scale * q - dmin * min`.
//!
//! ```text
//! byte  0                      16                            80     82         84
//!       scales: scale of a     qs: 2 bits for each element,  d f16  dmin f16
//!       sub-block in the low,  see below
//!       min in the high half
//! ```
//!
//! Byte `32 * h + i` of `qs` contains, lowest bits first, elements `i`, `i + 32`, `i + 64`, `i + 96` of half
//! `h`.
//!
//! Source: `block_q2_K` in `ggml/src/ggml-common.h`; `quantize_row_q2_K_ref`, `quantize_row_q2_K_impl` and
//! `dequantize_row_q2_K` in `ggml/src/ggml-quants.c`.

mod decode;
mod frozen;
mod lanes;
mod scalar;

pub use frozen::Block;

crate::block::codec! {
    Q2_K [scalar::ELEMS, scalar::BYTES], needs_weights: false, search: Always, encode: blocks, decode: lanes
}

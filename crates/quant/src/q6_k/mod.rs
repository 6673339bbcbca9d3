//! Q6_K: 256 elements in 16 sub-blocks of 16, `x = d * scale * (q - 32)`.
//!
//! ```text
//! byte  0                     128                   192             208    210
//!       ql: the low 4 bits    qh: the upper 2 bits  scales: 16 i8   d f16
//! ```
//!
//! For `i` in `0..32`, half `h` and quarter `r`, element `128 * h + 32 * r + i` has its low bits in
//! `ql[64 * h + 32 * (r % 2) + i]`, in the high half of the byte for `r` of 2 and 3, and its upper bits in
//! `qh[32 * h + i]` at bit `2 * r`.
//!
//! Source: `block_q6_K` in `ggml/src/ggml-common.h`; `quantize_row_q6_K_ref`, `quantize_row_q6_K_impl` and
//! `dequantize_row_q6_K` in `ggml/src/ggml-quants.c`.

mod decode;
mod frozen;
mod lanes;
mod scalar;

pub use frozen::Block;

crate::block::codec! {
    Q6_K [scalar::ELEMS, scalar::BYTES], needs_weights: false, search: Always, encode: blocks, decode: lanes
}

//! TQ2_0: 256 ternary elements, `x = d * (q - 1)`, 2 bits each.
//!
//! ```text
//! byte  0                               64     66
//!       qs: in Q2_K's layout            d f16
//! ```
//!
//! Source: `block_tq2_0` in `ggml/src/ggml-common.h`; `quantize_row_tq2_0_ref` and `dequantize_row_tq2_0` in
//! `ggml/src/ggml-quants.c`.

mod decode;
mod scalar;

crate::block::codec! {
    TQ2_0 [scalar::ELEMS, scalar::BYTES], needs_weights: false, search: Never, encode: loops, decode: lanes
}

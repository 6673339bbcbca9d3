//! Q1_0: 128 elements, `x = d` or `x = -d`.
//!
//! ```text
//! byte  0      2                              18
//!       d f16  qs: bit i % 8 of byte i / 8 is set for plus
//! ```
//!
//! Source: `block_q1_0` in `ggml/src/ggml-common.h`; `quantize_row_q1_0_ref` and `dequantize_row_q1_0` in
//! `ggml/src/ggml-quants.c`.

mod lanes;
mod scalar;

crate::block::codec! {
    Q1_0 [scalar::ELEMS, scalar::BYTES], needs_weights: false, search: Never, encode: lanes, decode: loops
}

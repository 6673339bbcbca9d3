//! Q2_0: 64 elements, `x = d * (q - 1)`.
//!
//! ```text
//! byte  0      2                              18
//!       d f16  qs: byte i has elements 4 * i to 4 * i + 3, lowest bits first
//! ```
//!
//! Source: `block_q2_0` in `ggml/src/ggml-common.h`; `quantize_row_q2_0_ref` and `dequantize_row_q2_0` in
//! `ggml/src/ggml-quants.c`.

mod scalar;

crate::block::codec! {
    Q2_0 [scalar::ELEMS, scalar::BYTES], needs_weights: false, search: Never, encode: loops, decode: loops
}

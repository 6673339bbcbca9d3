//! TQ1_0: 256 ternary elements, `x = d * (q - 1)`, five base-3 digits per byte.
//!
//! ```text
//! byte  0                    48             52     54
//!       qs: 5 digits a byte  qh: 4 digits   d f16
//! ```
//!
//! Byte `i < 32` contains elements `i`, `i + 32` to `i + 128`; byte `32 + i` of the next 16 elements
//! `160 + i`, `176 + i` to `224 + i`; byte `i` of `qh` elements `240 + i`, `244 + i` to `252 + i`. The first
//! element is the leading digit, a missing fifth digit is 0. The number of base 3, below 243, is stored as
//! `ceil(number * 256 / 243)`: then each multiplication by 3 moves the next digit out of the top of the byte.
//!
//! Source: `block_tq1_0` in `ggml/src/ggml-common.h`; `quantize_row_tq1_0_ref` and `dequantize_row_tq1_0` in
//! `ggml/src/ggml-quants.c`.

mod decode;
mod scalar;

crate::block::codec! {
    TQ1_0 [scalar::ELEMS, scalar::BYTES], needs_weights: false, search: Never, encode: loops, decode: lanes
}

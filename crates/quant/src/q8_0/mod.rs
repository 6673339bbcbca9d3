//! Q8_0: 32 elements, `x = d * q`.
//!
//! ```text
//! byte  0      2          34
//!       d f16  q: 32 i8
//! ```
//!
//! Source: `block_q8_0` in `ggml/src/ggml-common.h`; `quantize_row_q8_0_ref` and `dequantize_row_q8_0` in
//! `ggml/src/ggml-quants.c`.

mod frozen;
mod lanes;
mod scalar;

pub use frozen::Block;

crate::block::codec! {
    Q8_0 [scalar::ELEMS, scalar::BYTES], needs_weights: false, search: Never, encode: lanes, decode: loops
}

//! Q8_K: 256 elements, `x = d * q`, with sums of 16: for dot products with the K formats. Never in files.
//!
//! ```text
//! byte  0      4            260                                 292
//!       d f32  q: 256 i8    sums: 16 i16, sum i over q[16 * i..][..16]
//! ```
//!
//! Source: `block_q8_K` in `ggml/src/ggml-common.h`; `quantize_row_q8_K_ref` and `dequantize_row_q8_K` in
//! `ggml/src/ggml-quants.c`. If all values are zero, the reference leaves the sums unchanged; here they
//! become zero.

mod scalar;

crate::block::codec! {
    Q8_K [scalar::ELEMS, scalar::BYTES], needs_weights: false, search: Never, encode: loops, decode: loops
}

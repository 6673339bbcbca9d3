//! MXFP4: 32 elements, `x = 2^(e - 128) * v[q]` with the doubled e2m1 values `v` of [`e2m1`](crate::e2m1).
//!
//! ```text
//! byte  0     1                             17
//!       e u8  qs: byte i has q[i] in the low and q[i + 16] in the high half
//! ```
//!
//! Source: `block_mxfp4` in `ggml/src/ggml-common.h`; `quantize_row_mxfp4_ref` and `dequantize_row_mxfp4` in
//! `ggml/src/ggml-quants.c`; `ggml_e8m0_to_fp32_half` in `ggml/src/ggml-impl.h`.

mod decode;
mod scalar;

crate::block::codec! {
    MXFP4 [scalar::ELEMS, scalar::BYTES], needs_weights: false, search: Never, encode: e2m1, decode: lanes
}

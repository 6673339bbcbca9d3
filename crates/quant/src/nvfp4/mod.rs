//! NVFP4: 64 elements in 4 sub-blocks of 16, `x = d / 2 * v[q]` with the doubled e2m1 values `v` of
//! [`e2m1`](crate::e2m1).
//!
//! ```text
//! byte  0           4                                               36
//!       d: 4 ue4m3  qs: byte 8 * s + i has element i of sub-block s
//!                   in the low and element i + 8 in the high half
//! ```
//!
//! A ue4m3 number has no sign, 4 bits of exponent with bias 7 and 3 bits of mantissa; 0x7f reads as 0.
//!
//! Source: `block_nvfp4` in `ggml/src/ggml-common.h`; `quantize_row_nvfp4_ref` and `dequantize_row_nvfp4` in
//! `ggml/src/ggml-quants.c`; `ggml_ue4m3_to_fp32` and `ggml_fp32_to_ue4m3` in `ggml/src/ggml-impl.h`.

mod decode;
mod scalar;

crate::block::codec! {
    NVFP4 [scalar::ELEMS, scalar::BYTES], needs_weights: false, search: Never, encode: e2m1, decode: lanes
}

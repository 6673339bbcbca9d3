//! F16: half precision, little endian.
//!
//! Source: `ggml_fp32_to_fp16_row` in `ggml/src/ggml.c`; the rounding is [`crate::round::f32_to_f16`].

mod scalar;

crate::block::codec! {
    F16 [scalar::ELEMS, scalar::BYTES], needs_weights: false, search: Never, encode: loops, decode: loops
}

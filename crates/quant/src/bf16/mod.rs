//! BF16: the upper half of a single, little endian.
//!
//! Source: `ggml_fp32_to_bf16_row_ref` in `ggml/src/ggml.c`; the rounding is [`crate::round::f32_to_bf16`].

mod scalar;

crate::block::codec! {
    BF16 [scalar::ELEMS, scalar::BYTES], needs_weights: false, search: Never, encode: loops, decode: loops
}

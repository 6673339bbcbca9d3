//! F32: single precision, little endian, copied.
//!
//! Source: `ggml_quantize_chunk` in `ggml/src/ggml.c`.

mod scalar;

crate::block::codec! {
    F32 [scalar::ELEMS, scalar::BYTES], needs_weights: false, search: Never, encode: loops, decode: loops
}

//! BF16: the upper half of a single, little endian.
//!
//! Source: `ggml_fp32_to_bf16_row_ref` in `ggml/src/ggml.c`; the rounding is [`crate::round::f32_to_bf16`].

mod scalar;

use gguf_types::DType;

use crate::{
    Codec, Search,
    block::{assert_sizes, decoder, encoder},
};

const _: () = assert_sizes(DType::BF16, scalar::ELEMS, scalar::BYTES);

/// The row of this type.
pub const CODEC: Codec = Codec {
    dtype: DType::BF16,
    needs_weights: false,
    search: Search::Never,
    encode: Some(encoder!(loops)),
    decode: decoder!(loops),
};

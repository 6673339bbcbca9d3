//! F16: half precision, little endian.
//!
//! Source: `ggml_fp32_to_fp16_row` in `ggml/src/ggml.c`; the rounding is [`crate::round::f32_to_f16`].

mod scalar;

use gguf_types::DType;

use crate::{
    Codec, Search,
    block::{assert_sizes, decoder, encoder},
};

const _: () = assert_sizes(DType::F16, scalar::ELEMS, scalar::BYTES);

/// The row of this type.
pub const CODEC: Codec = Codec {
    dtype: DType::F16,
    needs_weights: false,
    search: Search::Never,
    encode: Some(encoder!(loops)),
    decode: decoder!(loops),
};

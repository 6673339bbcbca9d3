//! F32: single precision, little endian, copied.
//!
//! Source: `ggml_quantize_chunk` in `ggml/src/ggml.c`.

mod scalar;

use gguf_types::DType;

use crate::{
    Codec, Search,
    block::{assert_sizes, decoder, encoder},
};

const _: () = assert_sizes(DType::F32, scalar::ELEMS, scalar::BYTES);

/// The row of this type.
pub const CODEC: Codec = Codec {
    dtype: DType::F32,
    needs_weights: false,
    search: Search::Never,
    encode: Some(encoder!(loops)),
    decode: decoder!(loops),
};

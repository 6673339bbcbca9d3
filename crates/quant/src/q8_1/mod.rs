//! Q8_1: 32 elements, `x = d * q`, with their sum: for dot products with types that have a minimum. Never in
//! files; the reference has no decoder for it.
//!
//! ```text
//! byte  0      2               4          36
//!       d f16  s f16 = d * sum q: 32 i8
//! ```
//!
//! Source: `block_q8_1` in `ggml/src/ggml-common.h`; `quantize_row_q8_1_ref` in `ggml/src/ggml-quants.c`.

mod scalar;

use gguf_types::DType;

use crate::{
    Codec, Search,
    block::{assert_sizes, decoder, encode_blocks},
};

const _: () = assert_sizes(DType::Q8_1, scalar::ELEMS, scalar::BYTES);

pub const CODEC: Codec = Codec {
    dtype: DType::Q8_1,
    needs_weights: false,
    search: Search::Never,
    encode: Some(|_, rows, out| encode_blocks(rows.values, out, scalar::encode)),
    decode: decoder!(loops),
};

//! Q8_0: 32 elements, `x = d * q`.
//!
//! ```text
//! byte  0      2          34
//!       d f16  q: 32 i8
//! ```
//!
//! Source: `block_q8_0` in `ggml/src/ggml-common.h`; `quantize_row_q8_0_ref` and `dequantize_row_q8_0` in
//! `ggml/src/ggml-quants.c`.

mod frozen;
mod lanes;
mod scalar;

use gguf_types::DType;

use crate::{
    Codec, Search,
    block::{assert_sizes, decoder, encoder},
};

pub use frozen::Block;

const _: () = assert_sizes(DType::Q8_0, scalar::ELEMS, scalar::BYTES);

/// The row of this type.
pub const CODEC: Codec = Codec {
    dtype: DType::Q8_0,
    needs_weights: false,
    search: Search::Never,
    encode: Some(encoder!(lanes)),
    decode: decoder!(loops),
};

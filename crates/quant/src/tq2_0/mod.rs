//! TQ2_0: 256 ternary elements, `x = d * (q - 1)`, 2 bits each.
//!
//! ```text
//! byte  0                               64     66
//!       qs: placed as in Q2_K           d f16
//! ```
//!
//! Source: `block_tq2_0` in `ggml/src/ggml-common.h`; `quantize_row_tq2_0_ref` and `dequantize_row_tq2_0` in
//! `ggml/src/ggml-quants.c`.

mod decode;
mod scalar;

use gguf_types::DType;

use crate::{
    Codec, Search,
    block::{assert_sizes, decoder, encoder},
};

const _: () = assert_sizes(DType::TQ2_0, scalar::ELEMS, scalar::BYTES);

/// The row of this type.
pub const CODEC: Codec = Codec {
    dtype: DType::TQ2_0,
    needs_weights: false,
    search: Search::Never,
    encode: Some(encoder!(loops)),
    decode: decoder!(lanes),
};

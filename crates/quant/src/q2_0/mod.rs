//! Q2_0: 64 elements, `x = d * (q - 1)`.
//!
//! ```text
//! byte  0      2                              18
//!       d f16  qs: byte i holds elements 4 * i to 4 * i + 3, lowest bits first
//! ```
//!
//! Source: `block_q2_0` in `ggml/src/ggml-common.h`; `quantize_row_q2_0_ref` and `dequantize_row_q2_0` in
//! `ggml/src/ggml-quants.c`.

mod scalar;

use gguf_types::DType;

use crate::{
    Codec, Search,
    block::{assert_sizes, decoder, encoder},
};

const _: () = assert_sizes(DType::Q2_0, scalar::ELEMS, scalar::BYTES);

/// The row of this type.
pub const CODEC: Codec = Codec {
    dtype: DType::Q2_0,
    needs_weights: false,
    search: Search::Never,
    encode: Some(encoder!(loops)),
    decode: decoder!(loops),
};

//! Q4_1: 32 elements, `x = d * q + m`.
//!
//! ```text
//! byte  0      2      4                     20
//!       d f16  m f16  qs: byte i holds q[i] in the low and q[i + 16] in the high half
//! ```
//!
//! Source: `block_q4_1` in `ggml/src/ggml-common.h`; `quantize_row_q4_1_ref`, `quantize_row_q4_1_impl` and
//! `dequantize_row_q4_1` in `ggml/src/ggml-quants.c`.

mod decode;
mod frozen;
mod lanes;
mod scalar;

use tensor::DType;

use crate::{
    Codec, Search,
    block::{assert_sizes, decoder, encoder},
};

pub use frozen::Block;

const _: () = assert_sizes(DType::Q4_1, scalar::ELEMS, scalar::BYTES);

/// The row of this type.
pub const CODEC: Codec = Codec {
    dtype: DType::Q4_1,
    needs_weights: false,
    search: Search::Weighted,
    encode: Some(encoder!(weighted rows)),
    decode: decoder!(lanes),
};

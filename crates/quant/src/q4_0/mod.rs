//! Q4_0: 32 elements, `x = d * (q - 8)`.
//!
//! ```text
//! byte  0      2                            18
//!       d f16  qs: byte i holds q[i] in the low and q[i + 16] in the high half
//! ```
//!
//! Source: `block_q4_0` in `ggml/src/ggml-common.h`; `quantize_row_q4_0_ref`, `quantize_row_q4_0_impl` and
//! `dequantize_row_q4_0` in `ggml/src/ggml-quants.c`.

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

const _: () = assert_sizes(DType::Q4_0, scalar::ELEMS, scalar::BYTES);

/// The row of this type.
pub const CODEC: Codec = Codec {
    dtype: DType::Q4_0,
    needs_weights: false,
    search: Search::Weighted,
    encode: Some(encoder!(weighted rows)),
    decode: decoder!(lanes),
};

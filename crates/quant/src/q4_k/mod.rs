//! Q4_K: 256 elements in 8 sub-blocks of 32, `x = d * scale * q - dmin * min`.
//!
//! ```text
//! byte  0      2         4                      16                                 144
//!       d f16  dmin f16  scales and mins of 6   qs: byte 32 * p + i holds element i of sub-block
//!                        bits, [`k_scales`]     2 * p in the low, of 2 * p + 1 in the high half
//! ```
//!
//! [`k_scales`]: crate::k_scales
//!
//! Source: `block_q4_K` in `ggml/src/ggml-common.h`; `quantize_row_q4_K_ref`, `quantize_row_q4_K_impl` and
//! `dequantize_row_q4_K` in `ggml/src/ggml-quants.c`.

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

const _: () = assert_sizes(DType::Q4_K, scalar::ELEMS, scalar::BYTES);

/// The row of this type.
pub const CODEC: Codec = Codec {
    dtype: DType::Q4_K,
    needs_weights: false,
    search: Search::Always,
    encode: Some(encoder!(weighted blocks)),
    decode: decoder!(lanes),
};

//! Q5_K: 256 elements in 8 sub-blocks of 32, `x = d * scale * q - dmin * min`.
//!
//! ```text
//! byte  0      2         4                     16                     48                    176
//!       d f16  dmin f16  scales and mins of 6  qh: bit s of byte i    qs: the low 4 bits,
//!                        bits, [`k_scales`]    is bit 4 of element i  placed as in Q4_K
//!                                              of sub-block s
//! ```
//!
//! [`k_scales`]: crate::k_scales
//!
//! Source: `block_q5_K` in `ggml/src/ggml-common.h`; `quantize_row_q5_K_ref`, `quantize_row_q5_K_impl` and
//! `dequantize_row_q5_K` in `ggml/src/ggml-quants.c`.

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

const _: () = assert_sizes(DType::Q5_K, scalar::ELEMS, scalar::BYTES);

/// The row of this type.
pub const CODEC: Codec = Codec {
    dtype: DType::Q5_K,
    needs_weights: false,
    search: Search::Always,
    encode: Some(encoder!(weighted blocks)),
    decode: decoder!(lanes),
};

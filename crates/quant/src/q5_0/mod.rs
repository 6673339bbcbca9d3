//! Q5_0: 32 elements, `x = d * (q - 16)`.
//!
//! ```text
//! byte  0      2                            6                     22
//!       d f16  qh u32: bit i is bit 4       qs: byte i holds the low bits of q[i]
//!              of q[i]                      and, in the high half, of q[i + 16]
//! ```
//!
//! Source: `block_q5_0` in `ggml/src/ggml-common.h`; `quantize_row_q5_0_ref`, `quantize_row_q5_0_impl` and
//! `dequantize_row_q5_0` in `ggml/src/ggml-quants.c`.

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

const _: () = assert_sizes(DType::Q5_0, scalar::ELEMS, scalar::BYTES);

/// The row of this type.
pub const CODEC: Codec = Codec {
    dtype: DType::Q5_0,
    needs_weights: false,
    search: Search::Weighted,
    encode: Some(encoder!(weighted rows)),
    decode: decoder!(lanes),
};

//! Q2_K: 256 elements in 16 sub-blocks of 16, `x = d * scale * q - dmin * min`.
//!
//! ```text
//! byte  0                      16                            80     82         84
//!       scales: scale of a     qs: 2 bits for each element,  d f16  dmin f16
//!       sub-block in the low,  see below
//!       min in the high half
//! ```
//!
//! Byte `32 * h + i` of `qs` holds, lowest bits first, elements `i`, `i + 32`, `i + 64`, `i + 96` of half `h`.
//!
//! Source: `block_q2_K` in `ggml/src/ggml-common.h`; `quantize_row_q2_K_ref`, `quantize_row_q2_K_impl` and
//! `dequantize_row_q2_K` in `ggml/src/ggml-quants.c`.

mod decode;
mod frozen;
mod lanes;
mod scalar;

use tensor::DType;

use crate::{
    Codec, Level, Rows, Search,
    block::{assert_sizes, decode_at_level, encode_blocks, encode_weighted_blocks},
    level::at_level,
};

pub use frozen::Block;

const _: () = assert_sizes(DType::Q2_K, scalar::ELEMS, scalar::BYTES);

/// The row of this type.
pub const CODEC: Codec =
    Codec { dtype: DType::Q2_K, needs_weights: false, search: Search::Always, encode: Some(encode), decode };

fn encode(level: Level, rows: Rows<'_>, out: &mut [u8]) {
    match rows.weights {
        None => at_level!(
            level,
            simd => lanes::encode(simd, rows.values, out),
            encode_blocks(rows.values, out, scalar::encode)
        ),
        Some(weights) => at_level!(
            level,
            simd => lanes::encode_weighted(simd, rows, weights, out),
            encode_weighted_blocks(rows, weights, out, scalar::encode_weighted)
        ),
    }
}

fn decode(level: Level, blocks: &[u8], out: &mut [f32]) {
    decode_at_level!(level, blocks, out, decode::decode, scalar::decode);
}

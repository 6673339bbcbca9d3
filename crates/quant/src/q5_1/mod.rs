//! Q5_1: 32 elements, `x = d * q + m`.
//!
//! ```text
//! byte  0      2      4                     8                     24
//!       d f16  m f16  qh u32: bit i is      qs: byte i holds the low bits of q[i]
//!                     bit 4 of q[i]         and, in the high half, of q[i + 16]
//! ```
//!
//! Source: `block_q5_1` in `ggml/src/ggml-common.h`; `quantize_row_q5_1_ref`, `quantize_row_q5_1_impl` and
//! `dequantize_row_q5_1` in `ggml/src/ggml-quants.c`.

mod decode;
mod frozen;
mod lanes;
mod scalar;

use tensor::DType;

use crate::{
    Codec, Level, Rows, Search,
    block::{assert_sizes, decode_at_level, encode_blocks, encode_weighted_rows},
    fit::mean_square,
    level::at_level,
};

pub use frozen::Block;

const _: () = assert_sizes(DType::Q5_1, scalar::ELEMS, scalar::BYTES);

/// The row of this type.
pub const CODEC: Codec = Codec {
    dtype: DType::Q5_1,
    needs_weights: false,
    search: Search::Weighted,
    encode: Some(encode),
    decode,
};

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
            encode_weighted_rows(rows, weights, out, mean_square, scalar::encode_weighted)
        ),
    }
}

fn decode(level: Level, blocks: &[u8], out: &mut [f32]) {
    decode_at_level!(level, blocks, out, decode::decode, scalar::decode);
}

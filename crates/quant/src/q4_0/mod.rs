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
    Codec, Level, Rows, Search,
    block::{assert_sizes, decode_at_level, encode_blocks, encode_weighted_rows},
    fit::mean_square,
    level::at_level,
};

pub use frozen::Block;

const _: () = assert_sizes(DType::Q4_0, scalar::ELEMS, scalar::BYTES);

/// The row of this type.
pub const CODEC: Codec = Codec {
    dtype: DType::Q4_0,
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

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

use tensor::DType;

use crate::{
    Codec, Level, Rows, Search,
    block::{assert_sizes, decode_at_level, encode_blocks},
    level::at_level,
};

const _: () = assert_sizes(DType::Q2_0, scalar::ELEMS, scalar::BYTES);

/// The row of this type.
pub const CODEC: Codec =
    Codec { dtype: DType::Q2_0, needs_weights: false, search: Search::Never, encode: Some(encode), decode };

/// Importance weights change nothing: the scale follows from the values alone.
fn encode(level: Level, rows: Rows<'_>, out: &mut [u8]) {
    at_level!(
        level,
        _simd => encode_blocks(
            rows.values,
            out,
            #[inline(always)]
            |values, block| { scalar::encode(values, block); },
        ),
        encode_blocks(rows.values, out, scalar::encode)
    );
}

fn decode(level: Level, blocks: &[u8], out: &mut [f32]) {
    decode_at_level!(level, blocks, out, scalar::decode);
}

//! TQ2_0: 256 ternary elements, `x = d * (q - 1)`, 2 bits each.
//!
//! ```text
//! byte  0                               64     66
//!       qs: placed as in Q2_K           d f16
//! ```
//!
//! Source: `block_tq2_0` in `ggml/src/ggml-common.h`; `quantize_row_tq2_0_ref` and `dequantize_row_tq2_0` in
//! `ggml/src/ggml-quants.c`.

mod decode;
mod scalar;

use tensor::DType;

use crate::{
    Codec, Level, Rows, Search,
    block::{assert_sizes, decode_at_level, encode_blocks},
    level::at_level,
};

const _: () = assert_sizes(DType::TQ2_0, scalar::ELEMS, scalar::BYTES);

/// The row of this type.
pub const CODEC: Codec =
    Codec { dtype: DType::TQ2_0, needs_weights: false, search: Search::Never, encode: Some(encode), decode };

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
    decode_at_level!(level, blocks, out, decode::decode, scalar::decode);
}

//! BF16: the upper half of a single, little endian.
//!
//! Source: `ggml_fp32_to_bf16_row_ref` in `ggml/src/ggml.c`; the rounding is [`crate::round::f32_to_bf16`].

mod scalar;

use tensor::DType;

use crate::{
    Codec, Level, Rows, Search,
    block::{assert_sizes, decode_at_level, encode_blocks},
    level::at_level,
};

const _: () = assert_sizes(DType::BF16, scalar::ELEMS, scalar::BYTES);

/// The row of this type.
pub const CODEC: Codec =
    Codec { dtype: DType::BF16, needs_weights: false, search: Search::Never, encode: Some(encode), decode };

/// Importance weights change nothing: the scale follows from the values alone.
fn encode(level: Level, rows: Rows<'_>, out: &mut [u8]) {
    // One source for all levels: the compiler makes vectors of the plain loop.
    at_level!(
        level,
        _simd => encode_blocks(rows.values, out, scalar::encode),
        encode_blocks(rows.values, out, scalar::encode)
    );
}

fn decode(level: Level, blocks: &[u8], out: &mut [f32]) {
    decode_at_level!(level, blocks, out, scalar::decode);
}

//! F32: single precision, little endian, copied.
//!
//! Source: `ggml_quantize_chunk` in `ggml/src/ggml.c`.

mod scalar;

use tensor::DType;

use crate::{
    Codec, Level, Rows, Search,
    block::{assert_sizes, decode_at_level, encode_blocks},
    level::at_level,
};

const _: () = assert_sizes(DType::F32, scalar::ELEMS, scalar::BYTES);

/// The row of this type.
pub const CODEC: Codec =
    Codec { dtype: DType::F32, needs_weights: false, search: Search::Never, encode: Some(encode), decode };

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

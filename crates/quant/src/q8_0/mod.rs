//! Q8_0: 32 elements, `x = d * q`.
//!
//! ```text
//! byte  0      2          34
//!       d f16  q: 32 i8
//! ```
//!
//! Source: `block_q8_0` in `ggml/src/ggml-common.h`; `quantize_row_q8_0_ref` and `dequantize_row_q8_0` in
//! `ggml/src/ggml-quants.c`.

mod frozen;
mod lanes;
mod scalar;

use tensor::DType;

use crate::{
    Codec, Level, Rows, Search,
    block::{assert_sizes, decode_at_level, encode_blocks},
    level::at_level,
};

pub use frozen::Block;

const _: () = assert_sizes(DType::Q8_0, scalar::ELEMS, scalar::BYTES);

/// The row of this type.
pub const CODEC: Codec =
    Codec { dtype: DType::Q8_0, needs_weights: false, search: Search::Never, encode: Some(encode), decode };

/// Importance weights change nothing: the scale follows from the values alone.
fn encode(level: Level, rows: Rows<'_>, out: &mut [u8]) {
    at_level!(
        level,
        simd => lanes::encode(simd, rows.values, out),
        encode_blocks(rows.values, out, scalar::encode)
    );
}

fn decode(level: Level, blocks: &[u8], out: &mut [f32]) {
    decode_at_level!(level, blocks, out, scalar::decode);
}

//! Q8_K: 256 elements, `x = d * q`, with sums of 16: for dot products with the K formats. Never in files.
//!
//! ```text
//! byte  0      4            260                                 292
//!       d f32  q: 256 i8    sums: 16 i16, sum i over q[16 * i..][..16]
//! ```
//!
//! Source: `block_q8_K` in `ggml/src/ggml-common.h`; `quantize_row_q8_K_ref` and `dequantize_row_q8_K` in
//! `ggml/src/ggml-quants.c`. Where all values are zero, the reference leaves the sums as they were; here they
//! become zero.

mod scalar;

use gguf_types::DType;

use crate::{
    Codec, Search,
    block::{assert_sizes, decoder, encode_blocks},
};

const _: () = assert_sizes(DType::Q8_K, scalar::ELEMS, scalar::BYTES);

/// The row of this type.
pub const CODEC: Codec = Codec {
    dtype: DType::Q8_K,
    needs_weights: false,
    search: Search::Never,
    encode: Some(|_, rows, out| encode_blocks(rows.values, out, scalar::encode)),
    decode: decoder!(loops),
};

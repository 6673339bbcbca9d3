//! Q4_1: 32 elements, `x = d * q + m`.
//!
//! ```text
//! byte  0      2      4                     20
//!       d f16  m f16  qs: byte i has q[i] in the low and q[i + 16] in the high half
//! ```
//!
//! Source: `block_q4_1` in `ggml/src/ggml-common.h`; `quantize_row_q4_1_ref`, `quantize_row_q4_1_impl` and
//! `dequantize_row_q4_1` in `ggml/src/ggml-quants.c`.

use gguf_types::DType;

use crate::{
    Codec,
    q4_q5::{Layout, codec},
};

pub struct Block;

impl Layout<20> for Block {
    const DTYPE: DType = DType::Q4_1;
    const HALF: u8 = 8;
    const HAS_MIN: bool = true;
}

pub const CODEC: Codec = codec::<Block, 20, 5>();

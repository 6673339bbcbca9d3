//! Q4_0: 32 elements, `x = d * (q - 8)`.
//!
//! ```text
//! byte  0      2                            18
//!       d f16  qs: byte i has q[i] in the low and q[i + 16] in the high half
//! ```
//!
//! Source: `block_q4_0` in `ggml/src/ggml-common.h`; `quantize_row_q4_0_ref`, `quantize_row_q4_0_impl` and
//! `dequantize_row_q4_0` in `ggml/src/ggml-quants.c`.

use gguf_types::DType;

use crate::{
    Codec,
    q4_q5::{Layout, codec},
};

pub struct Block;

impl Layout<18> for Block {
    const DTYPE: DType = DType::Q4_0;
    const HALF: u8 = 8;
    const HAS_MIN: bool = false;
}

pub const CODEC: Codec = codec::<Block, 18, 5>();

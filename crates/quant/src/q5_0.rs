//! Q5_0: 32 elements, `x = d * (q - 16)`.
//!
//! ```text
//! byte  0      2                            6                     22
//!       d f16  qh u32: bit i is bit 4       qs: byte i has the low bits of q[i]
//!              of q[i]                      and, in the high half, of q[i + 16]
//! ```
//!
//! Source: `block_q5_0` in `ggml/src/ggml-common.h`; `quantize_row_q5_0_ref`, `quantize_row_q5_0_impl` and
//! `dequantize_row_q5_0` in `ggml/src/ggml-quants.c`.

use gguf_types::DType;

use crate::{
    Codec,
    q4_q5::{Layout, codec},
};

pub struct Block;

impl Layout<22> for Block {
    const DTYPE: DType = DType::Q5_0;
    const HALF: u8 = 16;
    const HAS_MIN: bool = false;
}

pub const CODEC: Codec = codec::<Block, 22, 6>();

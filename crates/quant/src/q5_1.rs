//! Q5_1: 32 elements, `x = d * q + m`.
//!
//! ```text
//! byte  0      2      4                     8                     24
//!       d f16  m f16  qh u32: bit i is      qs: byte i has the low bits of q[i]
//!                     bit 4 of q[i]         and, in the high half, of q[i + 16]
//! ```
//!
//! Source: `block_q5_1` in `ggml/src/ggml-common.h`; `quantize_row_q5_1_ref`, `quantize_row_q5_1_impl` and
//! `dequantize_row_q5_1` in `ggml/src/ggml-quants.c`.

use gguf_types::DType;

use crate::{
    Codec,
    q4_q5::{Layout, codec},
};

pub struct Block;

impl Layout<24> for Block {
    const DTYPE: DType = DType::Q5_1;
    const HALF: u8 = 16;
    const HAS_MIN: bool = true;
    // The reference does not clamp here.
    const BOUNDED: bool = false;
}

pub const CODEC: Codec = codec::<Block, 24, 6>();

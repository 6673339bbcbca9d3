//! Q4_K: 256 elements in 8 sub-blocks of 32, `x = d * scale * q - dmin * min`.
//!
//! ```text
//! byte  0      2         4                      16                                 144
//!       d f16  dmin f16  scales and mins of 6   qs: byte 32 * p + i has element i of sub-block
//!                        bits, [`k_scales`]     2 * p in the low, of 2 * p + 1 in the high half
//! ```
//!
//! [`k_scales`]: crate::k_scales
//!
//! Source: `block_q4_K` in `ggml/src/ggml-common.h`; `quantize_row_q4_K_ref`, `quantize_row_q4_K_impl` and
//! `dequantize_row_q4_K` in `ggml/src/ggml-quants.c`.

use gguf_types::DType;

use crate::{
    Codec,
    fit::Candidates,
    q4_q5_k::{Layout, codec},
};

pub struct Block;

impl Layout<144> for Block {
    const DTYPE: DType = DType::Q4_K;
    const MAX_LEVEL: u8 = 15;
    const CANDIDATES: Candidates = Candidates { first: -1.0, step: 0.1, n_steps: 20 };
    const MAX_SCALE: u8 = u8::MAX;
}

pub const CODEC: Codec = codec::<Block, 144, 36>();

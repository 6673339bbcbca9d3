//! Q5_K: 256 elements in 8 sub-blocks of 32, `x = d * scale * q - dmin * min`.
//!
//! ```text
//! byte  0      2         4                     16                     48                    176
//!       d f16  dmin f16  scales and mins of 6  qh: bit s of byte i    qs: the low 4 bits,
//!                        bits, [`k_scales`]    is bit 4 of element i  in Q4_K's layout
//!                                              of sub-block s
//! ```
//!
//! [`k_scales`]: crate::k_scales
//!
//! Source: `block_q5_K` in `ggml/src/ggml-common.h`; `quantize_row_q5_K_ref`, `quantize_row_q5_K_impl` and
//! `dequantize_row_q5_K` in `ggml/src/ggml-quants.c`.

use gguf_types::DType;

use crate::{
    Codec,
    fit::Candidates,
    q4_q5_k::{Layout, codec},
};

pub struct Block;

impl Layout<176> for Block {
    const DTYPE: DType = DType::Q5_K;
    const MAX_LEVEL: u8 = 31;
    const CANDIDATES: Candidates = Candidates { first: -0.5, step: 0.1, n_steps: 15 };
    const MAX_SCALE: u8 = 63;
}

pub const CODEC: Codec = codec::<Block, 176, 44>();

//! Qwen 1.
//!
//! Config keys: those of every text model. `intermediate_size` counts gate and up together, and is written so.
//!
//! Transforms: Q, K and V stay one matrix.
//!
//! Source: `QwenModel` in `conversion/qwen.py`.

use crate::families::starcoder::convert::starcoder;
use crate::parts::epsilon;
use crate::prelude::*;

pub const QWEN: Arch = Arch {
    name: "qwen",
    classes: &[Class::new("QWenLMHeadModel")],
    example: "Qwen/Qwen-7B",
    tensors: &[starcoder::ENDS, LAYERS],
    keys: epsilon::keys,
    vocab: ROUTE,
    harmless: &["scale_attn_weights=true"],
    ..DECODER
};

/// Its tiktoken file.
const ROUTE: Route =
    Route { rank_file: Some("qwen.tiktoken"), ..Route::new("qwen", |writer| writer.tiktoken()) };

const LAYERS: &[TensorRule] = &[
    TensorRule::copy(&["transformer.h.{bid}.ln_1"], "blk.{bid}.attn_norm"),
    TensorRule::copy(&["transformer.h.{bid}.attn.c_attn"], "blk.{bid}.attn_qkv"),
    TensorRule::copy(&["transformer.h.{bid}.attn.c_proj"], "blk.{bid}.attn_output"),
    TensorRule::copy(&["transformer.h.{bid}.ln_2"], "blk.{bid}.ffn_norm"),
    // c_proj (w1 x * act(w2 x)): the second is the gate.
    TensorRule::copy(&["transformer.h.{bid}.mlp.w1"], "blk.{bid}.ffn_up"),
    TensorRule::copy(&["transformer.h.{bid}.mlp.w2"], "blk.{bid}.ffn_gate"),
    TensorRule::copy(&["transformer.h.{bid}.mlp.c_proj"], "blk.{bid}.ffn_down"),
];

//! Snowflake Arctic: a mixture of experts in parallel with a dense part.
//!
//! Config keys: those of llama.
//!
//! Transforms: those of llama. Experts become one tensor.
//!
//! Source: `ArcticModel` in `conversion/arctic.py`.

use crate::families::llama::convert::llama;
use crate::prelude::*;

pub const ARCTIC: Arch = Arch {
    name: "arctic",
    classes: &[Class::new("ArcticForCausalLM")],
    example: "Snowflake/snowflake-arctic-instruct",
    tensors: &[rules::DECODER_ENDS, LAYERS, rules::ATTENTION_PERMUTED, rules::MIXTRAL_EXPERTS],
    keys: llama::keys,
    vocab: Route::new("arctic", |writer| writer.spm(SpmStyle::Renamed)),
    ..DECODER
};

const LAYERS: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.input_layernorm"], "blk.{bid}.attn_norm"),
    // The dense part and the mixture have a norm each.
    TensorRule::copy(&["model.layers.{bid}.residual_layernorm"], "blk.{bid}.ffn_norm"),
    TensorRule::copy(&["model.layers.{bid}.post_attention_layernorm"], "blk.{bid}.ffn_norm_exps"),
    // w1 is the gate, w3 up, w2 down.
    TensorRule::copy(&["model.layers.{bid}.residual_mlp.w1"], "blk.{bid}.ffn_gate"),
    TensorRule::copy(&["model.layers.{bid}.residual_mlp.w2"], "blk.{bid}.ffn_down"),
    TensorRule::copy(&["model.layers.{bid}.residual_mlp.w3"], "blk.{bid}.ffn_up"),
];

//! CogVLM, text part.
//!
//! Config keys: those of llama.
//!
//! Transforms: Q, K and V stay one matrix. The matrices that see images are left out, like the reference, which takes
//! them by their names for parts of the tower.
//!
//! Source: `CogVLMModel` in `conversion/cogvlm.py`.

use crate::families::llama::convert::llama;
use crate::families::llama::convert::vocab;
use crate::prelude::*;

pub const COGVLM: Arch = Arch {
    name: "cogvlm",
    classes: &[Class::new("CogVLMForCausalLM")],
    example: "THUDM/cogvlm2-llama3-chat-19B",
    tensors: &[rules::DECODER_ENDS, rules::PRE_NORMS, LAYERS],
    keys: llama::keys,
    computed: llama::computed,
    vocab: vocab::ROUTE,
    ..DECODER
};

const LAYERS: &[TensorRule] = &[
    // `language_expert_...` sees text; its twin for images is what is left out.
    TensorRule::copy(&["model.layers.{bid}.self_attn.language_expert_query_key_value"], "blk.{bid}.attn_qkv"),
    TensorRule::copy(&["model.layers.{bid}.self_attn.language_expert_dense"], "blk.{bid}.attn_output"),
    TensorRule::copy(&["model.layers.{bid}.mlp.language_mlp.gate_proj"], "blk.{bid}.ffn_gate"),
    TensorRule::copy(&["model.layers.{bid}.mlp.language_mlp.up_proj"], "blk.{bid}.ffn_up"),
    TensorRule::copy(&["model.layers.{bid}.mlp.language_mlp.down_proj"], "blk.{bid}.ffn_down"),
];

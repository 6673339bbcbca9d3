//! StarCoder 2.
//!
//! Config keys: those of every text model. A sliding window is not written.
//!
//! Source: `StarCoder2Model` in `conversion/starcoder.py`.

use crate::prelude::*;

pub const STARCODER2: Arch = Arch {
    name: "starcoder2",
    classes: &[Class::new("Starcoder2ForCausalLM")],
    example: "bigcode/starcoder2-3b",
    configs: &[ConfigClass::new("starcoder2")],
    tensors: &[rules::DECODER_ENDS, rules::PRE_NORMS, rules::ATTENTION, MLP],
    harmless: &["norm_type=layer_norm"],
    ..DECODER
};

const MLP: &[TensorRule] = &[
    // GPT-2's names, but ordinary linear layers: nothing is transposed.
    TensorRule::copy(&["model.layers.{bid}.mlp.c_fc"], "blk.{bid}.ffn_up"),
    TensorRule::copy(&["model.layers.{bid}.mlp.c_proj"], "blk.{bid}.ffn_down"),
];

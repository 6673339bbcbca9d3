//! EXAONE 3, 3.5 and Deep.
//!
//! Config keys: those of every text model, the rotated dimensions.
//!
//! Transforms: rotary scaling of type `llama3` becomes the computed tensor `rope_freqs`.
//!
//! Source: `ExaoneModel` in `conversion/exaone.py`.

use crate::families::llama::convert::llama;
use crate::families::starcoder::convert::starcoder;
use crate::parts::epsilon;
use crate::prelude::*;

pub const EXAONE: Arch = Arch {
    name: "exaone",
    // transformers 5 runs it with Llama's classes. It renames config keys, but saves weights under their own names.
    classes: &[Class::new("ExaoneForCausalLM"), Class::new("LlamaForCausalLM")],
    fits: Some(|input| input.config.get("model_type").is_some_and(|kind| kind == "exaone")),
    example: "LGAI-EXAONE/EXAONE-3.5-2.4B-Instruct",
    configs: &[ConfigClass::new("exaone")],
    raw_config: true,
    tensors: &[starcoder::ENDS, LAYERS],
    keys,
    computed: llama::computed,
    ..DECODER
};

const LAYERS: &[TensorRule] = &[
    TensorRule::copy(&["transformer.h.{bid}.ln_1"], "blk.{bid}.attn_norm"),
    TensorRule::copy(&["transformer.h.{bid}.attn.attention.q_proj"], "blk.{bid}.attn_q"),
    TensorRule::copy(&["transformer.h.{bid}.attn.attention.k_proj"], "blk.{bid}.attn_k"),
    TensorRule::copy(&["transformer.h.{bid}.attn.attention.v_proj"], "blk.{bid}.attn_v"),
    TensorRule::copy(&["transformer.h.{bid}.attn.attention.out_proj"], "blk.{bid}.attn_output"),
    TensorRule::copy(&["transformer.h.{bid}.ln_2"], "blk.{bid}.ffn_norm"),
    // y = c_proj (silu(c_fc_0 x) * c_fc_1 x): the first is the gate.
    TensorRule::copy(&["transformer.h.{bid}.mlp.c_fc_0"], "blk.{bid}.ffn_gate"),
    TensorRule::copy(&["transformer.h.{bid}.mlp.c_fc_1"], "blk.{bid}.ffn_up"),
    TensorRule::copy(&["transformer.h.{bid}.mlp.c_proj"], "blk.{bid}.ffn_down"),
];

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    epsilon::keys(hparams, keys)?;
    // llama.cpp's graph has no other activation.
    for key in ["activation_function", "hidden_act"] {
        if let Some(activation) = hparams.get(key).filter(|name| *name != "silu") {
            return Err(bad(key, activation, "silu"));
        }
    }
    let rotated = hparams.rotated(hparams.head_share()?, Some(1.0))?;
    keys.set_derived("rope.dimension_count", "hidden_size", rotated)
}

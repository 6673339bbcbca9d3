//! Bamba: state spaces and attention by layer.
//!
//! Config keys: those of Granite 4, which it is written as.
//!
//! Transforms: those of Granite 4. Its layers that attend have positions.
//!
//! Source: `GraniteHybridModel` in `conversion/granite.py`, for the config as it stands.

use crate::families::granite::convert::granitehybrid::{self, GRANITEHYBRID};
use crate::families::granite::convert::granitemoe;
use crate::prelude::*;

pub const BAMBA: Arch = Arch {
    name: "bamba",
    written: Some("granitehybrid"),
    classes: &[Class::new("BambaForCausalLM")],
    example: "ibm-ai-platform/Bamba-9B-v2",
    configs: &[ConfigClass::new("bamba")],
    tensors: &[ENDS, LAYERS, granitehybrid::STATE, granitehybrid::ATTENTION],
    keys: |hparams, keys| {
        granitemoe::keys(hparams, keys)?;
        // inner = expand * hidden: the width of the state-space part.
        let expand = hparams.need_u64(&["expand", "num_heads", "mamba_expand"])?;
        let inner = expand.saturating_mul(hparams.need_u64(&["hidden_size"])?);
        granitehybrid::state_keys(hparams, keys, inner)?;
        keys.set_prefixed(granitehybrid::ROTATES.subject, Value::Bool(true));
        Ok(())
    },
    from_file: |_, _| {},
    // Granite's two names of the feed-forward part are not found here: it is `feed_forward`.
    rename: |_, _| None,
    export_name: |_, _, _| None,
    ..GRANITEHYBRID
};

const ENDS: &[TensorRule] = &[
    TensorRule::copy(&["model.embed_tokens"], "token_embd"),
    TensorRule::copy(&["model.final_layernorm"], "output_norm"),
    TensorRule::copy(&["lm_head"], "output").need(Need::Optional),
];

const LAYERS: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.input_layernorm"], "blk.{bid}.attn_norm"),
    TensorRule::copy(&["model.layers.{bid}.pre_ff_layernorm"], "blk.{bid}.ffn_norm"),
    TensorRule::copy(&["model.layers.{bid}.feed_forward.gate_proj"], "blk.{bid}.ffn_gate"),
    TensorRule::copy(&["model.layers.{bid}.feed_forward.up_proj"], "blk.{bid}.ffn_up"),
    TensorRule::copy(&["model.layers.{bid}.feed_forward.down_proj"], "blk.{bid}.ffn_down"),
];

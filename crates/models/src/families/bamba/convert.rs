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

/// The row.
pub const BAMBA: Arch = Arch {
    name: "bamba",
    written: Some("granitehybrid"),
    classes: &[Class::new("BambaForCausalLM")],
    example: "ibm-ai-platform/Bamba-9B-v2",
    configs: &[BAMBA_CONFIG],
    tensors: &[ENDS, LAYERS, granitehybrid::STATE, granitehybrid::ATTENTION],
    keys: |hparams, keys| {
        granitemoe::keys(hparams, keys)?;
        // inner = expand * hidden: the width of the state-space part.
        let expand = hparams.need_u64(&["expand", "num_heads", "mamba_expand"])?;
        let inner = expand.saturating_mul(hparams.need_u64(&["hidden_size"])?);
        // `true`: layers that attend are rotated.
        granitehybrid::state_keys(hparams, keys, inner, true)
    },
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

/// `BambaConfig` of transformers 5.23.
const BAMBA_CONFIG: ConfigClass = ConfigClass {
    model_type: "bamba",
    fields: &[
        &[
            ("vocab_size", INT, Int(128_000)),
            ("intermediate_size", INT, Int(14336)),
            ("num_key_value_heads", INT | NULL, Int(8)),
            ("rms_norm_eps", FLOAT, Float(1e-5)),
            ("pad_token_id", INT | NULL, Int(0)),
            ("max_position_embeddings", INT, Int(262_144)),
            ("attn_layer_indices", INTS | NULL, Null),
            ("mamba_n_heads", INT | NULL, Int(128)),
            ("mamba_d_head", TEXT | INT | NULL, Text("auto")),
            ("mamba_n_groups", INT | NULL, Int(1)),
            ("mamba_d_state", INT | NULL, Int(256)),
            ("mamba_d_conv", INT | NULL, Int(4)),
            ("mamba_expand", INT | NULL, Int(2)),
            ("mamba_conv_bias", BOOL | NULL, Bool(true)),
            ("mamba_proj_bias", BOOL | NULL, Bool(false)),
            ("attention_bias", BOOL, Bool(false)),
            ("mlp_bias", BOOL, Bool(false)),
        ],
        DECODER_FIELDS,
    ],
    fill: &[Fill::KvHeads],
    ..BASE
};

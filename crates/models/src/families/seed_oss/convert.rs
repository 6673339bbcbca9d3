//! Seed OSS.
//!
//! Config keys: those of every text model.
//!
//! Transforms: none. The norm before the feed-forward part has the name of one after attention.
//!
//! Source: `SeedOssModel` in `conversion/olmo.py`, and `MODEL_TENSORS[SEED_OSS]` in
//! `gguf-py/gguf/constants.py`.

use crate::prelude::*;

/// The row.
pub const SEED_OSS: Arch = Arch {
    name: "seed_oss",
    classes: &[Class::new("SeedOssForCausalLM")],
    example: "ByteDance-Seed/Seed-OSS-36B-Instruct",
    configs: &[SEED_OSS_CONFIG],
    tensors: &[rules::DECODER_ENDS, NORMS, rules::ATTENTION, rules::GATED_MLP],
    ..DECODER
};

const NORMS: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.input_layernorm"], "blk.{bid}.attn_norm"),
    // gguf-py lists no `ffn_norm` for this architecture, so its name map takes the next entry that has the name.
    TensorRule::copy(&["model.layers.{bid}.post_attention_layernorm"], "blk.{bid}.post_attention_norm"),
];

/// `SeedOssConfig` of transformers 5.23.
const SEED_OSS_CONFIG: ConfigClass = ConfigClass {
    model_type: "seed_oss",
    fields: &[
        &[
            ("vocab_size", INT, Int(155_136)),
            ("intermediate_size", INT, Int(27648)),
            ("num_hidden_layers", INT, Int(64)),
            ("num_attention_heads", INT, Int(80)),
            ("num_key_value_heads", INT | NULL, Int(8)),
            ("max_position_embeddings", INT, Int(524_288)),
            ("rms_norm_eps", FLOAT, Float(1e-6)),
            ("pad_token_id", INT | NULL, Int(1)),
            ("bos_token_id", INT | NULL, Int(0)),
            ("pretraining_tp", INT, Int(1)),
            ("attention_bias", BOOL, Bool(true)),
            ("attention_out_bias", BOOL, Bool(false)),
            ("attention_dropout", INT | FLOAT, Float(0.1)),
            ("residual_dropout", INT | FLOAT, Float(0.1)),
            ("mlp_bias", BOOL, Bool(false)),
            ("head_dim", INT | NULL, Int(128)),
        ],
        DECODER_FIELDS,
    ],
    fill: &[Fill::HeadDim, Fill::KvHeads],
    ..BASE
};

//! InternLM 3, which is written as llama.
//!
//! Config keys: those of llama.
//!
//! Transforms: those of llama.
//!
//! Source: `InternLM3Model` in `conversion/internlm.py`.

use crate::families::llama::convert::llama;
use crate::prelude::*;

/// The row.
pub const INTERNLM3: Arch = Arch {
    name: "internlm3",
    written: Some("llama"),
    classes: &[Class::new("InternLM3ForCausalLM")],
    example: "internlm/internlm3-8b-instruct",
    configs: &[INTERNLM3_CONFIG],
    // Rows i and i + d / 2 of each head of Q and K become 2 i and 2 i + 1, as llama.cpp rotates neighbours.
    tensors: &[rules::DECODER_ENDS, rules::PRE_NORMS, rules::ATTENTION_PERMUTED, rules::GATED_MLP],
    keys: llama::keys,
    vocab: Route::InternLm3,
    ..DECODER
};

/// `InternLM3Config` of transformers 5.23.
const INTERNLM3_CONFIG: ConfigClass = ConfigClass {
    model_type: "internlm3",
    fields: &[
        &[
            ("vocab_size", INT, Int(128_512)),
            ("intermediate_size", INT, Int(10240)),
            ("num_hidden_layers", INT, Int(48)),
            ("num_key_value_heads", INT | NULL, Int(2)),
            ("max_position_embeddings", INT, Int(32768)),
            ("rms_norm_eps", FLOAT, Float(1e-5)),
            ("pad_token_id", INT | NULL, Int(2)),
            ("attention_bias", BOOL, Bool(false)),
            ("attention_dropout", INT | FLOAT, Float(0.0)),
            ("mlp_bias", BOOL, Bool(false)),
            ("head_dim", INT | NULL, Int(128)),
        ],
        DECODER_FIELDS,
    ],
    fill: &[Fill::HeadDim, Fill::KvHeads],
    renamed: &[("qkv_bias", "attention_bias"), ("bias", "mlp_bias")],
    heads_divide_hidden: true,
    ..BASE
};

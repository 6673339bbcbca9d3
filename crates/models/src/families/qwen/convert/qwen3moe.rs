//! Qwen 3, mixtures of experts.
//!
//! Config keys: those of every text model, the length of the experts.
//!
//! Transforms: experts become one tensor.
//!
//! Source: `Qwen3MoeModel` in `conversion/qwen.py`.

use crate::families::qwen::convert::qwen2moe;
use crate::prelude::*;

/// The row.
pub const QWEN3MOE: Arch = Arch {
    name: "qwen3moe",
    classes: &[Class::new("Qwen3MoeForCausalLM")],
    example: "Qwen/Qwen3-30B-A3B",
    configs: &[QWEN3MOE_CONFIG],
    tensors: &[
        rules::DECODER_ENDS,
        rules::PRE_NORMS,
        rules::ATTENTION,
        rules::QK_NORMS,
        rules::QWEN_EXPERTS,
        rules::STACKED_EXPERTS,
    ],
    // `Qwen3MoeModel` is a `Qwen2MoeModel` in the reference. Its config has no shared expert, so that
    // key is left out.
    keys: qwen2moe::keys,
    built_in: &[NORMALIZES_EXPERTS],
    ..DECODER
};

/// `Qwen3MoeConfig` of transformers 5.23.
const QWEN3MOE_CONFIG: ConfigClass = ConfigClass {
    model_type: "qwen3_moe",
    fields: &[
        &[
            ("vocab_size", INT, Int(151_936)),
            ("hidden_size", INT, Int(2048)),
            ("intermediate_size", INT, Int(6144)),
            ("num_hidden_layers", INT, Int(24)),
            ("num_key_value_heads", INT, Int(4)),
            ("max_position_embeddings", INT, Int(32768)),
            ("rms_norm_eps", FLOAT, Float(1e-6)),
            ("attention_bias", BOOL, Bool(false)),
            ("use_sliding_window", BOOL, Bool(false)),
            ("sliding_window", INT | NULL, Int(4096)),
            ("attention_dropout", INT | FLOAT, Float(0.0)),
            ("decoder_sparse_step", INT, Int(1)),
            ("moe_intermediate_size", INT, Int(768)),
            ("num_experts_per_tok", INT, Int(8)),
            ("num_experts", INT, Int(128)),
            ("norm_topk_prob", BOOL, Bool(false)),
            ("output_router_logits", BOOL, Bool(false)),
            ("router_aux_loss_coef", FLOAT, Float(0.001)),
            ("mlp_only_layers", NULL | INTS, Null),
            ("bos_token_id", INT | NULL, Null),
            ("eos_token_id", INT | NULL | INTS, Null),
        ],
        DECODER_FIELDS,
    ],
    // The class knows the number as `num_local_experts`, under which `text_keys` finds it first.
    renamed: &[("num_experts", "num_local_experts")],
    adjust: |map| {
        adjust::window_if_used(map, Json::Null);
        Ok(())
    },
    ..BASE
};

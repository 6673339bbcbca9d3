//! Qwen 1.5 and 2, mixtures of experts.
//!
//! Config keys: those of every text model, lengths of the experts and of the shared one.
//!
//! Transforms: experts become one tensor.
//!
//! Source: `Qwen2MoeModel` in `conversion/qwen.py`.

use crate::families::qwen::convert::qwen2;
use crate::prelude::*;

/// The row.
pub const QWEN2MOE: Arch = Arch {
    name: "qwen2moe",
    classes: &[Class::new("Qwen2MoeForCausalLM")],
    example: "Qwen/Qwen1.5-MoE-A2.7B",
    configs: &[QWEN2MOE_CONFIG],
    tensors: &[
        rules::DECODER_ENDS,
        rules::PRE_NORMS,
        rules::ATTENTION,
        rules::QWEN_EXPERTS,
        rules::STACKED_EXPERTS,
        SHARED_EXPERT,
    ],
    keys,
    built_in: &[KEEPS_EXPERT_WEIGHTS],
    ..DECODER
};

/// The expert that all tokens pass, and its gate.
pub const SHARED_EXPERT: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.mlp.shared_expert_gate"], "blk.{bid}.ffn_gate_inp_shexp"),
    TensorRule::copy(&["model.layers.{bid}.mlp.shared_expert.gate_proj"], "blk.{bid}.ffn_gate_shexp"),
    TensorRule::copy(&["model.layers.{bid}.mlp.shared_expert.up_proj"], "blk.{bid}.ffn_up_shexp"),
    TensorRule::copy(&["model.layers.{bid}.mlp.shared_expert.down_proj"], "blk.{bid}.ffn_down_shexp"),
];

/// `Qwen2MoeConfig` of transformers 5.23.
const QWEN2MOE_CONFIG: ConfigClass = ConfigClass {
    model_type: "qwen2_moe",
    fields: &[
        &[
            ("hidden_size", INT, Int(2048)),
            ("intermediate_size", INT, Int(5632)),
            ("num_hidden_layers", INT, Int(24)),
            ("num_attention_heads", INT, Int(16)),
            ("num_key_value_heads", INT | NULL, Int(16)),
            ("decoder_sparse_step", INT, Int(1)),
            ("moe_intermediate_size", INT, Int(1408)),
            ("shared_expert_intermediate_size", INT, Int(5632)),
            ("num_experts_per_tok", INT, Int(4)),
            ("num_experts", INT, Int(60)),
            ("norm_topk_prob", BOOL, Bool(false)),
            ("output_router_logits", BOOL, Bool(false)),
            ("router_aux_loss_coef", FLOAT, Float(0.001)),
            ("mlp_only_layers", NULL | INTS, Null),
            ("qkv_bias", BOOL, Bool(true)),
        ],
        qwen2::QWEN2_CONFIG.fields[0],
        DECODER_FIELDS,
    ],
    adjust: |map| {
        // `Qwen2MoeConfig` has 0 where `Qwen2Config` has null.
        adjust::window_if_used(map, 0.into());
        Ok(())
    },
    ..BASE
};

/// The keys.
///
/// # Errors
///
/// [`ArchError::MissingKey`], [`ArchError::BadKey`].
pub fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    text_keys(hparams, keys)?;
    // After the text keys, which count the experts and those that are used.
    keys.count("expert_feed_forward_length", hparams, &["moe_intermediate_size"])?;
    keys.count("expert_shared_feed_forward_length", hparams, &["shared_expert_intermediate_size"])
}

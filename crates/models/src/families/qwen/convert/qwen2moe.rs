//! Qwen 1.5 and 2, mixtures of experts.
//!
//! Config keys: those of every text model, lengths of the experts and of the shared one.
//!
//! Transforms: experts become one tensor.
//!
//! Source: `Qwen2MoeModel` in `conversion/qwen.py`.

use crate::prelude::*;

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

/// `Qwen2MoeConfig`.
const QWEN2MOE_CONFIG: ConfigClass = ConfigClass::new("qwen2_moe").adjusted(|map| {
    // `Qwen2MoeConfig` has 0 where `Qwen2Config` has null.
    adjust::window_if_used(map, 0.into());
    Ok(())
});

/// The keys.
pub fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    text_keys(hparams, keys)?;
    // After the text keys, which count the experts and those that are used.
    keys.count("expert_feed_forward_length", hparams, &["moe_intermediate_size"])?;
    keys.count("expert_shared_feed_forward_length", hparams, &["shared_expert_intermediate_size"])
}

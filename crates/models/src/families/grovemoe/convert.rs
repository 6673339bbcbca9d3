//! GroveMoE: a mixture of experts with a smaller one for each pair of experts.
//!
//! Config keys: those of every text model, the length of the experts, and constants of the model's code for
//! the smaller ones.
//!
//! Transforms: experts become one tensor, as do the smaller ones. The experts' bias, which the model does not
//! use, is left out.
//!
//! Source: `GroveMoeModel` in `conversion/grovemoe.py`.

use crate::prelude::*;

pub const GROVEMOE: Arch = Arch {
    name: "grovemoe",
    classes: &[Class::new("GroveMoeForCausalLM"), Class::new("modeling_grove_moe.GroveMoeForCausalLM")],
    example: "inclusionAI/GroveMoE-Inst",
    tensors: &[
        rules::DECODER_ENDS,
        rules::PRE_NORMS,
        rules::ATTENTION,
        rules::QK_NORMS,
        rules::QWEN_EXPERTS,
        PAIRS,
    ],
    keys,
    drops: |_, name| name.ends_with(".expert_bias").then_some("the model's code does not use it"),
    harmless: &["norm_topk_prob=true"],
    built_in: &[NORMALIZES_EXPERTS],
    ..DECODER
};

/// Experts that two others share.
const PAIR: u64 = 2;

/// The smaller experts, of which there is one for each pair.
const PAIRS: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.mlp.chunk_experts.{xid}.down_proj"], "blk.{bid}.ffn_down_chexps")
        .rows(RowRule::Fuse(n_pairs)),
    TensorRule::copy(&["model.layers.{bid}.mlp.chunk_experts.{xid}.gate_proj"], "blk.{bid}.ffn_gate_chexps")
        .rows(RowRule::Fuse(n_pairs)),
    TensorRule::copy(&["model.layers.{bid}.mlp.chunk_experts.{xid}.up_proj"], "blk.{bid}.ffn_up_chexps")
        .rows(RowRule::Fuse(n_pairs)),
];

fn n_pairs(hparams: &Hparams) -> usize {
    usize::try_from(hparams.n_experts().unwrap_or(0) / PAIR).unwrap_or(0)
}

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    text_keys(hparams, keys)?;
    keys.count("expert_feed_forward_length", hparams, &["moe_intermediate_size"])?;
    // The length of a head is that of the smaller experts too: 128 if the config has no length.
    let length = hparams.get_u64("head_dim")?.filter(|length| *length > 0).unwrap_or(128);
    keys.set_derived("expert_chunk_feed_forward_length", "head_dim", length)?;
    keys.set_derived("experts_per_group", "", PAIR)?;
    // From the model's code; no key of the config has it.
    keys.set_prefixed("expert_group_scale", Value::F32(0.05));
    Ok(())
}

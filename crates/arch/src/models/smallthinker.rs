//! SmallThinker: mixtures of experts whose router comes before attention.
//!
//! Config keys: those of every text model, experts under names of its own, the window where any layer has it.
//!
//! Transforms: experts become one tensor.
//!
//! Source: `SmallThinkerModel` in `conversion/smallthinker.py`.

use crate::models::prelude::*;

/// The row.
pub const SMALLTHINKER: Arch = Arch {
    name: "smallthinker",
    classes: &[Class::new("SmallThinkerForCausalLM")],
    example: "PowerInfer/SmallThinker-4BA0.6B-Instruct",
    needs: &[
        "hidden_size",
        "num_hidden_layers",
        "num_attention_heads",
        "moe_num_primary_experts",
        "vocab_size",
    ],
    tensors: &[rules::DECODER_ENDS, rules::PRE_NORMS, rules::ATTENTION, EXPERTS],
    keys,
    // What counts experts looks for the usual name.
    prepare: |hparams, _| {
        let experts = hparams.get("moe_num_primary_experts").cloned();
        Ok(experts.map(|experts| hparams.with("num_experts", experts)).unwrap_or(hparams))
    },
    harmless: &["rope_layout"],
    export: Export::NotExportable("which router its checkpoint has is not read back from its keys"),
    ..DECODER
};

const EXPERTS: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.block_sparse_moe.primary_router"], "blk.{bid}.ffn_gate_inp"),
    TensorRule::copy(&["model.layers.{bid}.block_sparse_moe.experts.{xid}.down"], "blk.{bid}.ffn_down_exps")
        .rows(RowRule::StackExperts),
    TensorRule::copy(&["model.layers.{bid}.block_sparse_moe.experts.{xid}.gate"], "blk.{bid}.ffn_gate_exps")
        .rows(RowRule::StackExperts),
    TensorRule::copy(&["model.layers.{bid}.block_sparse_moe.experts.{xid}.up"], "blk.{bid}.ffn_up_exps")
        .rows(RowRule::StackExperts),
];

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    // `prepare` lent the usual name; keys are taken from the model's own.
    text_keys(&hparams.without("num_experts"), keys)?;
    keys.count("expert_count", hparams, &["moe_num_primary_experts"])?;
    keys.count("expert_used_count", hparams, &["moe_num_active_primary_experts"])?;
    keys.count("expert_feed_forward_length", hparams, &["moe_ffn_hidden_size"])?;
    // No layer is dense: the length is that of an expert.
    keys.count("feed_forward_length", hparams, &["moe_ffn_hidden_size"])?;
    keys.derived_from("expert_gating_func", &["moe_primary_router_apply_softmax"]);
    let softmax = hparams.is_true("moe_primary_router_apply_softmax");
    // 1 is softmax, 2 is sigmoid.
    keys.set_prefixed("expert_gating_func", Value::U32(if softmax { 1 } else { 2 }));
    let layout = hparams.get("sliding_window_layout").and_then(Json::as_array);
    let slides = layout.is_some_and(|layout| layout.iter().any(|flag| *flag != 0));
    if slides && hparams.get_u64("sliding_window_size")?.is_some_and(|window| window > 0) {
        keys.count("attention.sliding_window", hparams, &["sliding_window_size"])?;
    }
    Ok(())
}

//! Hy 3: mixtures of experts.
//!
//! Config keys: those of every text model, experts and their weights, the layers of multi-token prediction.
//!
//! Transforms: experts become one tensor. Layers of multi-token prediction follow the others, if the checkpoint has
//! them.
//!
//! Source: `HYV3Model` in `conversion/hunyuan.py`.

use crate::families::glm::convert::glm4moe::{self, PREDICTED};
use crate::prelude::*;

pub const HY_V3: Arch = Arch {
    name: "hy_v3",
    classes: &[Class::new("HYV3ForCausalLM")],
    example: "tencent/Hy3-preview",
    configs: &[HY_V3_CONFIG],
    tensors: &[
        rules::DECODER_ENDS,
        rules::PRE_NORMS,
        rules::ATTENTION,
        rules::QK_NORMS,
        &rules::gated_mlp(Need::If(|hparams, bid| !is_mixture(hparams, bid))),
        EXPERTS,
        glm4moe::PREDICTION,
    ],
    keys,
    // The norm after an MTP layer has the name of an ordinary one.
    rename: |_, name| {
        name.contains(".final_layernorm.").then(|| name.replace(".final_layernorm.", ".shared_head.norm."))
    },
    export_name: |_, _, name| {
        name.contains(".shared_head.norm.").then(|| name.replace(".shared_head.norm.", ".final_layernorm."))
    },
    prepare: glm4moe::count_predicted,
    harmless: &["moe_router_use_sigmoid=true", "qk_norm=true"],
    ..DECODER
};

const IS_MIXTURE: Need = Need::If(is_mixture);

const EXPERTS: &[TensorRule] = &[
    TensorRule::copy(
        &["model.layers.{bid}.mlp.router.gate", "model.layers.{bid}.mlp.gate"],
        "blk.{bid}.ffn_gate_inp",
    )
    .need(IS_MIXTURE),
    // Without an ending in the file too, as llama.cpp reads it for this architecture.
    TensorRule::copy(&["model.layers.{bid}.mlp.expert_bias"], "blk.{bid}.exp_probs_b")
        .bare("")
        .need(Need::Optional),
    // (f, in) of each expert become (experts, f, in).
    TensorRule::stack(&["model.layers.{bid}.mlp.experts.{xid}.down_proj"], "blk.{bid}.ffn_down_exps")
        .need(IS_MIXTURE),
    TensorRule::stack(&["model.layers.{bid}.mlp.experts.{xid}.gate_proj"], "blk.{bid}.ffn_gate_exps")
        .need(IS_MIXTURE),
    TensorRule::stack(&["model.layers.{bid}.mlp.experts.{xid}.up_proj"], "blk.{bid}.ffn_up_exps")
        .need(IS_MIXTURE),
    // The shared expert is not stacked: one matrix of n_shared * f rows.
    TensorRule::copy(
        &["model.layers.{bid}.mlp.shared_mlp.gate_proj", "model.layers.{bid}.mlp.shared_experts.gate_proj"],
        "blk.{bid}.ffn_gate_shexp",
    )
    .need(IS_MIXTURE),
    TensorRule::copy(
        &["model.layers.{bid}.mlp.shared_mlp.up_proj", "model.layers.{bid}.mlp.shared_experts.up_proj"],
        "blk.{bid}.ffn_up_shexp",
    )
    .need(IS_MIXTURE),
    TensorRule::copy(
        &["model.layers.{bid}.mlp.shared_mlp.down_proj", "model.layers.{bid}.mlp.shared_experts.down_proj"],
        "blk.{bid}.ffn_down_shexp",
    )
    .need(IS_MIXTURE),
];

/// Layers that are not listed as dense; those of the prediction are mixtures.
fn is_mixture(hparams: &Hparams, bid: u64) -> bool {
    let types = hparams.get("mlp_layer_types").and_then(Json::as_array);
    match types {
        Some(types) => {
            // The list ends before layers of the prediction, so a layer beyond it is a mixture.
            usize::try_from(bid).ok().and_then(|bid| types.get(bid)).is_none_or(|kind| kind != "dense")
        }
        None => bid >= hparams.get("first_k_dense_replace").and_then(Json::as_u64).unwrap_or(0),
    }
}

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    text_keys(hparams, keys)?;
    keys.needed("expert_feed_forward_length", hparams, &["moe_intermediate_size"])?;
    let shared = hparams.get_u64("num_shared_experts")?.unwrap_or(1);
    let length = hparams.need_u64(&["moe_intermediate_size"])?.saturating_mul(shared);
    keys.set_derived("expert_shared_feed_forward_length", "num_shared_experts", length)?;
    keys.derived_from("expert_weights_norm", &["route_norm"]);
    // Weights of the chosen experts sum to 1 unless the config says `false`.
    let norm = hparams.get("route_norm") != Some(&Json::Bool(false));
    keys.set_prefixed("expert_weights_norm", Value::Bool(norm));
    keys.derived_from("expert_weights_scale", &["router_scaling_factor"]);
    let scale = hparams.get_f64("router_scaling_factor")?.unwrap_or(1.0);
    keys.set_prefixed("expert_weights_scale", Value::F32(scale as f32));
    // Scores go through a sigmoid.
    keys.set_prefixed("expert_gating_func", Value::U32(2));
    keys.derived_from("nextn_predict_layers", &[PREDICTED]);
    if let Some(predicted) = hparams.get_u64(PREDICTED)?.filter(|count| *count > 0) {
        keys.set_derived("nextn_predict_layers", PREDICTED, predicted)?;
    }
    Ok(())
}

/// `HYV3Config`.
const HY_V3_CONFIG: ConfigClass = ConfigClass::new("hy_v3").adjusted(|map| adjust::dense_then_sparse(map, 1));

//! K-EXAONE, mixtures of experts.
//!
//! Config keys: those of EXAONE 4, experts and their weights, leading dense layers, the layers of multi-token prediction.
//!
//! Transforms: experts become one tensor. The prediction's tensors, `mtp.`, follow the last layer.
//!
//! Source: `ExaoneMoEModel` in `conversion/exaone.py`.

use crate::families::exaone::convert::exaone4::{self, EXAONE4};
use crate::families::glm::convert::glm4moe::{self, PREDICTED};
use crate::families::qwen::convert::qwen3next;
use crate::prelude::*;

pub const EXAONE_MOE: Arch = Arch {
    name: "exaone-moe",
    // transformers 5.1 spells the name differently from earlier files.
    classes: &[Class::new("ExaoneMoeForCausalLM"), Class::new("ExaoneMoEForCausalLM")],
    example: "LGAI-EXAONE/K-EXAONE-236B-A23B",
    configs: &[EXAONE_MOE_CONFIG],
    tensors: &[
        rules::DECODER_ENDS,
        rules::PRE_NORMS,
        rules::ATTENTION,
        rules::QK_NORMS,
        &rules::gated_mlp(Need::If(|hparams, bid| is_trunk(hparams, bid) && !is_mixture(hparams, bid))),
        &rules::qwen_experts(Need::If(|hparams, bid| is_trunk(hparams, bid) && is_mixture(hparams, bid))),
        &rules::shared_experts(Need::If(|hparams, bid| is_trunk(hparams, bid) && is_mixture(hparams, bid))),
        CORRECTION,
        glm4moe::PREDICTION,
    ],
    keys,
    // `mtp.` becomes the layer after the last one.
    rename: |hparams, name| qwen3next::rename(hparams, name.strip_prefix("model.").unwrap_or(name)),
    export_name: |hparams, _, name| qwen3next::export_name(hparams, name),
    prepare: exaone4::count_predicted,
    built_in: &[],
    ..EXAONE4
};

const CORRECTION: &[TensorRule] = &[TensorRule::copy(
    // Two spellings, by release.
    &["model.layers.{bid}.mlp.e_score_correction", "model.layers.{bid}.mlp.gate.e_score_correction"],
    "blk.{bid}.exp_probs_b",
)
.need(Need::Optional)];

/// Leading dense layers under both of their names.
const DENSE: [&str; 2] = ["first_k_dense_replace", "first_last_k_dense_replace"];

/// True if a layer is not an MTP layer, whose feed-forward part no key describes.
fn is_trunk(hparams: &Hparams, bid: u64) -> bool {
    hparams.derived.trunk_layers.is_none_or(|trunk| bid < trunk)
}

fn is_mixture(hparams: &Hparams, bid: u64) -> bool {
    let kind = hparams.get("mlp_layer_types").and_then(|types| types.get(usize::try_from(bid).ok()?));
    match kind {
        Some(kind) => kind == "sparse",
        // Configs without a list: the first layers are dense, all others are mixtures.
        None => bid >= hparams.find(&DENSE).and_then(|(_, count)| count.as_u64()).unwrap_or(0),
    }
}

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    exaone4::keys(hparams, keys)?;
    keys.needed("expert_feed_forward_length", hparams, &["moe_intermediate_size"])?;
    keys.sigmoid_by_default();
    keys.needed("expert_shared_count", hparams, &["num_shared_experts"])?;
    // Shared experts lie side by side in one matrix: its length is theirs together.
    let shared = hparams.need_u64(&["num_shared_experts"])?;
    let length = hparams.need_u64(&["moe_intermediate_size"])?.saturating_mul(shared);
    keys.set_derived("expert_shared_feed_forward_length", "", length)?;
    keys.needed_number("expert_weights_scale", hparams, &["routed_scaling_factor"])?;
    keys.flag("expert_weights_norm", hparams, "norm_topk_prob");
    let dense = hparams.find(&DENSE).and_then(|(_, count)| count.as_u64()).unwrap_or(0);
    keys.set_derived("leading_dense_block_count", "first_k_dense_replace", dense)?;
    keys.set_derived("nextn_predict_layers", PREDICTED, hparams.get_u64(PREDICTED)?.unwrap_or(0))?;
    keys.unscaled_by_default();
    Ok(())
}

/// `ExaoneMoeConfig`.
const EXAONE_MOE_CONFIG: ConfigClass = ConfigClass::new("exaone_moe").adjusted(|map| {
    let dense = adjust::count(map, "first_k_dense_replace").unwrap_or(0);
    adjust::dense_then_sparse(map, dense)?;
    exaone4::config(map)
});

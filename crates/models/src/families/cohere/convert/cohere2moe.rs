//! Command A+ and North: Cohere's mixtures of experts.
//!
//! Config keys: those of every text model, `logit_scale`, the window and which layers have it, experts, leading dense
//! layers, the layers of multi-token prediction.
//!
//! Transforms: experts become one tensor. Biases, which are zeros, are left out. Layers of multi-token prediction follow
//! the others, if the checkpoint has them.
//!
//! Source: `Cohere2MoeModel` in `conversion/command_r.py`.

use crate::families::cohere::convert::cohere2::{self, COHERE2};
use crate::families::glm::convert::glm4moe::{self, PREDICTED};
use crate::prelude::*;

pub const COHERE2MOE: Arch = Arch {
    name: "cohere2moe",
    classes: &[Class::new("Cohere2MoeForCausalLM")],
    example: "CohereLabs/North-Mini-Code-1.0",
    configs: &[COHERE2_MOE_CONFIG],
    tensors: &[
        rules::DECODER_ENDS,
        cohere2::NORMS,
        rules::ATTENTION,
        &rules::gated_mlp(Need::If(|hparams, bid| !is_mixture(hparams, bid))),
        &rules::qwen_experts(Need::If(is_mixture)),
        &rules::shared_experts(Need::If(|hparams, bid| {
            let shared = hparams.get("num_shared_experts").and_then(Json::as_u64).unwrap_or(0);
            is_mixture(hparams, bid) && shared > 0
        })),
        glm4moe::PREDICTION,
    ],
    keys,
    // `layer_types` states the same.
    harmless: &["sliding_window_pattern", "prefix_dense_sliding_window_pattern"],
    drops: COHERE2.drops,
    prepare: glm4moe::count_predicted,
    ..DECODER
};

/// All but the first few layers are mixtures, among them those of the prediction.
fn is_mixture(hparams: &Hparams, bid: u64) -> bool {
    bid >= dense_layers(hparams)
}

/// Leading layers without experts.
fn dense_layers(hparams: &Hparams) -> u64 {
    match hparams.get("mlp_layer_types").and_then(Json::as_array) {
        Some(types) => types.iter().take_while(|kind| *kind == "dense").count() as u64,
        None => hparams.get("first_k_dense_replace").and_then(Json::as_u64).unwrap_or(0),
    }
}

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    text_keys(hparams, keys)?;
    keys.needed_number("logit_scale", hparams, &["logit_scale"])?;
    keys.needed("attention.sliding_window", hparams, &["sliding_window"])?;
    let slides = hparams.sliding_layers().ok_or_else(|| missing("layer_types"))?;
    keys.set_prefixed("attention.sliding_window_pattern", Value::Array(Array::Bool(slides)));
    keys.vocab_size(hparams)?;
    // The plain length is that of an expert.
    keys.needed("expert_feed_forward_length", hparams, &["intermediate_size"])?;
    keys.set_derived("leading_dense_block_count", "first_k_dense_replace", dense_layers(hparams))?;
    keys.flag("expert_weights_norm", hparams, "norm_topk_prob");
    let shared = hparams.get_u64("num_shared_experts")?.unwrap_or(0);
    keys.derived_from("expert_shared_count", &["num_shared_experts"]);
    if shared > 0 {
        let strategy =
            hparams.get("shared_expert_combination_strategy").filter(|strategy| *strategy != "average");
        if let Some(strategy) = strategy {
            return Err(bad("shared_expert_combination_strategy", strategy, "average"));
        }
        keys.set_derived("expert_shared_count", "num_shared_experts", shared)?;
        // Shared experts side by side: n experts of length f are one of n f.
        let length = hparams.need_u64(&["intermediate_size"])?.saturating_mul(shared);
        keys.set_derived("expert_shared_feed_forward_length", "", length)?;
    }
    keys.derived_from("nextn_predict_layers", &[PREDICTED]);
    if let Some(predicted) = hparams.get_u64(PREDICTED)?.filter(|count| *count > 0) {
        keys.set_derived("nextn_predict_layers", PREDICTED, predicted)?;
    }
    keys.needed("rope.dimension_count", hparams, &["head_dim"])?;
    keys.unscaled_by_default();
    Ok(())
}

/// `Cohere2MoeConfig`.
const COHERE2_MOE_CONFIG: ConfigClass = ConfigClass::new("cohere2_moe").adjusted(config);

/// Leading dense layers have their own sliding-window pattern.
fn config(map: &mut Map<String, Json>) -> Result<(), String> {
    let dense = map.remove("first_k_dense_replace").and_then(|dense| dense.as_u64()).unwrap_or(0);
    let period = |key: &str| {
        let period = adjust::count(map, key).filter(|period| *period > 0);
        period.ok_or_else(|| format!("`{key}` is not above 0"))
    };
    let (dense_size, other_size) =
        (period("prefix_dense_sliding_window_pattern")?, period("sliding_window_pattern")?);
    // The last layer of each period attends to all. The second pattern starts at the first mixture.
    adjust::layer_types(map, |layer| match layer.checked_sub(dense) {
        None => !(layer + 1).is_multiple_of(dense_size),
        Some(layer) => !(layer + 1).is_multiple_of(other_size),
    })?;
    adjust::dense_then_sparse(map, dense)
}

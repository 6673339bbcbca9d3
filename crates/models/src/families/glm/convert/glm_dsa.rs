//! GLM 5 to 5.2: DeepSeek 3.2 under another vendor's name, where layers may share the choice of an indexer.
//!
//! Config keys: those of DeepSeek 3.2, the rotated part of a head, and the layers with an indexer.
//!
//! Transforms: those of DeepSeek 3.2.
//!
//! Source: `GlmMoeDsaModel` in `conversion/glm.py`.

use crate::families::deepseek::convert::deepseek32::{self, DEEPSEEK32};
use crate::families::glm::convert::glm4_moe_lite::is_mixture;
use crate::families::glm::convert::glm4moe;
use crate::parts::latent;
use crate::prelude::*;

pub const GLM_DSA: Arch = Arch {
    name: "glm-dsa",
    classes: &[Class::new("GlmMoeDsaForCausalLM")],
    example: "zai-org/GLM-5.2",
    configs: &[GLM_MOE_DSA_CONFIG],
    tensors: &[
        rules::DECODER_ENDS,
        rules::PRE_NORMS,
        latent::ATTENTION,
        &deepseek32::indexer(has_indexer),
        &rules::gated_mlp(Need::If(|hparams, bid| !is_mixture(hparams, bid))),
        &rules::qwen_experts(Need::If(is_mixture)),
        &rules::shared_experts(Need::If(is_mixture)),
        latent::CORRECTION,
        glm4moe::PREDICTION,
    ],
    keys,
    vocab: glm4moe::ROUTE,
    yarn: YarnScales::RotationAndScores,
    ..DEEPSEEK32
};

/// True if a layer has an indexer; others reuse the previous layer's choice. An MTP layer has one.
pub fn has_indexer(hparams: &Hparams, bid: u64) -> bool {
    let kind = hparams.get("indexer_types").and_then(|types| types.get(usize::try_from(bid).ok()?));
    // A layer of the prediction lies beyond the list, which counts as `full`.
    kind.is_none_or(|kind| kind == "full")
}

/// For each layer that the config lists whether it has an indexer.
pub fn indexer_types(hparams: &Hparams, keys: &mut Keys) {
    keys.derived_from("attention.indexer.types", &["indexer_types"]);
    if let Some(Json::Array(types)) = hparams.get("indexer_types")
        && !types.is_empty()
    {
        let full = types.iter().map(|kind| kind == "full").collect();
        keys.set_prefixed("attention.indexer.types", Value::Array(Array::Bool(full)));
    }
}

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    latent::keys(hparams, keys)?;
    let share = hparams.rope().f64_or("partial_rotary_factor", 1.0)?;
    // A factor below 1 rotates only so much of the part that is kept for rotation; fractions are cut off.
    let rotated = (hparams.need_u64(&["qk_rope_head_dim"])? as f64 * share) as u64;
    keys.set_derived("rope.dimension_count", "qk_rope_head_dim", rotated)?;
    keys.count("nextn_predict_layers", hparams, &[glm4moe::PREDICTED])?;
    deepseek32::indexer_keys(hparams, keys)?;
    indexer_types(hparams, keys);
    Ok(())
}

/// `GlmMoeDsaConfig`.
const GLM_MOE_DSA_CONFIG: ConfigClass = ConfigClass::new("glm_moe_dsa").adjusted(|map| {
    indexers(map)?;
    deepseek32::layer_kinds(map)
});

/// Layers with an indexer, by the older keys: a pattern of letters, or every few layers from one on.
pub fn indexers(map: &mut Map<String, Json>) -> Result<(), String> {
    if let Some(pattern) = map.get("index_topk_pattern").filter(|pattern| !pattern.is_null()).cloned()
        && map.get("indexer_types").is_none_or(Json::is_null)
    {
        let letter_type = |letter: char| match letter {
            'F' => Ok("full"),
            'S' => Ok("shared"),
            other => Err(format!("`index_topk_pattern` has `{other}`")),
        };
        let types = match pattern.as_str() {
            Some(letters) => letters.chars().map(letter_type).collect::<Result<Json, String>>()?,
            None => pattern,
        };
        map.insert("indexer_types".into(), types);
    }
    let every = adjust::count(map, "index_topk_freq").unwrap_or(1).max(1);
    let from = adjust::count(map, "index_skip_topk_offset").unwrap_or(2);
    // Each layer before `from` has its own. With `every` 4 and `from` 2: layers 0, 1, 5, 9 and so on. With
    // `every` 1: all.
    adjust::kinds(map, "indexer_types", |layer| {
        if (layer + 1).saturating_sub(from).is_multiple_of(every) { "full" } else { "shared" }
    })
}

//! GLM 4.7 Flash: DeepSeek's latent attention and mixture under another vendor's name.
//!
//! Config keys: those of DeepSeek 2, and the MTP layers.
//!
//! Transforms: those of DeepSeek 2; MTP layers follow the others.
//!
//! Source: `Glm4MoeLiteModel` in `conversion/glm.py`.

use crate::families::glm::convert::glm4moe;
use crate::parts::latent::{self, LATENT};
use crate::prelude::*;

pub const GLM4_MOE_LITE: Arch = Arch {
    name: "glm4-moe-lite",
    written: Some("deepseek2"),
    classes: &[Class::new("Glm4MoeLiteForCausalLM")],
    example: "zai-org/GLM-4.7-Flash",
    configs: &[GLM4_MOE_LITE_CONFIG],
    tensors: &[
        rules::DECODER_ENDS,
        rules::PRE_NORMS,
        latent::ATTENTION,
        &rules::gated_mlp(Need::If(|hparams, bid| !is_mixture(hparams, bid))),
        &rules::qwen_experts(Need::If(is_mixture)),
        &rules::shared_experts(Need::If(is_mixture)),
        latent::CORRECTION,
        glm4moe::PREDICTION,
    ],
    keys: |hparams, keys| {
        latent::keys(hparams, keys)?;
        keys.sigmoid_by_default();
        keys.count("nextn_predict_layers", hparams, &[glm4moe::PREDICTED])
    },
    drops: latent::drop_tied,
    prepare: glm4moe::count_predicted,
    prediction: Some(glm4moe::PREDICTED_LAYERS),
    vocab: glm4moe::ROUTE,
    yarn: YarnScales::ScoresByMultiplier,
    ..LATENT
};

/// True if the feed-forward part of a layer is a mixture. The Hub's files state the number of dense layers,
/// newer ones list them. An MTP layer is a mixture.
pub fn is_mixture(hparams: &Hparams, bid: u64) -> bool {
    let kind = hparams.get("mlp_layer_types").and_then(|types| types.get(usize::try_from(bid).ok()?));
    kind.map_or_else(|| latent::is_mixture(hparams, bid), |kind| kind == "sparse")
}

/// `Glm4MoeLiteConfig`.
const GLM4_MOE_LITE_CONFIG: ConfigClass =
    ConfigClass::new("glm4_moe_lite").adjusted(|map| adjust::dense_then_sparse(map, 1));

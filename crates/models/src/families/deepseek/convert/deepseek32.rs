//! DeepSeek 3.2: DeepSeek 3 with an indexer that chooses what a query attends to.
//!
//! Config keys: those of DeepSeek 2, the layers of multi-token prediction, heads of the indexer and how many it chooses.
//!
//! Transforms: those of DeepSeek 2; layers of multi-token prediction follow the others.
//!
//! Source: `DeepseekV32Model` in `conversion/deepseek.py`.

use crate::families::glm::convert::glm4_moe_lite::is_mixture;
use crate::families::glm::convert::glm4moe;
use crate::parts::latent::{self, LATENT};
use crate::prelude::*;

pub const DEEPSEEK32: Arch = Arch {
    name: "deepseek32",
    classes: &[Class::new("DeepseekV32ForCausalLM")],
    example: "deepseek-ai/DeepSeek-V3.2-Exp",
    configs: &[DEEPSEEK_V32_CONFIG],
    tensors: &[
        rules::DECODER_ENDS,
        rules::PRE_NORMS,
        latent::ATTENTION,
        &indexer(|_, _| true),
        &rules::gated_mlp(Need::If(|hparams, bid| !is_mixture(hparams, bid))),
        &rules::qwen_experts(Need::If(is_mixture)),
        &rules::shared_experts(Need::If(is_mixture)),
        latent::CORRECTION,
        glm4moe::PREDICTION,
    ],
    keys: |hparams, keys| {
        latent::keys(hparams, keys)?;
        keys.sigmoid_by_default();
        keys.count("nextn_predict_layers", hparams, &[glm4moe::PREDICTED])?;
        indexer_keys(hparams, keys)
    },
    // All layers choose what they attend to.
    harmless: &["layer_types"],
    drops: latent::drop_tied,
    prepare: glm4moe::count_predicted,
    prediction: Some(glm4moe::PREDICTED_LAYERS),
    vocab: Route::GPT2,
    yarn: YarnScales::RotationAndScoresByMultiplier,
    ..LATENT
};

/// The indexer, which chooses the positions that a query attends to.
pub const fn indexer(layers: InLayers) -> [TensorRule; 4] {
    [
        TensorRule::copy(&["model.layers.{bid}.self_attn.indexer.wq_b"], "blk.{bid}.indexer.attn_q_b")
            .in_layers(layers),
        TensorRule::copy(&["model.layers.{bid}.self_attn.indexer.wk"], "blk.{bid}.indexer.attn_k")
            .in_layers(layers),
        // Weight and bias.
        TensorRule::copy(&["model.layers.{bid}.self_attn.indexer.k_norm"], "blk.{bid}.indexer.k_norm")
            .in_layers(layers),
        TensorRule::copy(&["model.layers.{bid}.self_attn.indexer.weights_proj"], "blk.{bid}.indexer.proj")
            .in_layers(layers),
    ]
}

/// Heads of the indexer, and how many positions it chooses.
pub fn indexer_keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    keys.needed("attention.indexer.head_count", hparams, &["index_n_heads"])?;
    keys.needed("attention.indexer.key_length", hparams, &["index_head_dim"])?;
    keys.needed("attention.indexer.top_k", hparams, &["index_topk"])
}

/// `DeepseekV32Config`.
const DEEPSEEK_V32_CONFIG: ConfigClass = ConfigClass::new("deepseek_v32").adjusted(|map| {
    // Where both are stated, `num_experts` wins over `n_routed_experts`.
    if let Some(experts) = map.get("num_experts").filter(|experts| !experts.is_null()).cloned() {
        map.insert("n_routed_experts".into(), experts);
    }
    layer_kinds(map)
});

/// Kinds of layers if the file does not list them; the class calls the rotated part of a head its size.
pub fn layer_kinds(map: &mut Map<String, Json>) -> Result<(), String> {
    let dense = adjust::count(map, "first_k_dense_replace").unwrap_or(0);
    // At the default of 3 layers 0, 1 and 2 are dense.
    adjust::kinds(map, "mlp_layer_types", |layer| if layer < dense { "dense" } else { "sparse" })?;
    adjust::kinds(map, "layer_types", |_| "indexed_attention")?;
    latent::rotated_part(map)
}

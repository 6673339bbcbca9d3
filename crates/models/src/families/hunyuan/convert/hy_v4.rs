//! HY 4: DeepSeek's latent attention with gates and sinks, an indexer, a mixture, and several residual
//! streams.
//!
//! Config keys: those of DeepSeek 2, bounds of the experts' gates, residual streams, the indexer.
//!
//! Transforms: those of DeepSeek 2; gate and up of the stacked experts are split. Mixers of residual streams
//! stay in f32, and so does the output if the config requests it. MTP layers are left out.
//!
//! Source: `HYV4Model` in `conversion/hy_v4.py`.

use crate::families::deepseek::convert::deepseek32;
use crate::families::glm::convert::glm_dsa::{self, has_indexer};
use crate::families::glm::convert::glm4_moe_lite::is_mixture;
use crate::families::glm::convert::glm5_next;
use crate::parts::latent::{self, LATENT};
use crate::prelude::*;

pub const HY_V4: Arch = Arch {
    name: "hy_v4",
    classes: &[Class::new("HYV4ForCausalLM")],
    example: "tencent/Hy4-preview",
    configs: &[HY_V4_CONFIG],
    tensors: &[
        ENDS,
        rules::PRE_NORMS,
        latent::ATTENTION,
        GATED_SINKS,
        &deepseek32::indexer(indexes),
        STREAMS,
        &rules::gated_mlp(Need::If(|hparams, bid| !is_mixture(hparams, bid))),
        EXPERTS,
        &rules::shared_experts(Need::If(is_mixture)),
        latent::CORRECTION,
    ],
    keys,
    harmless: &["layer_types", "hidden_act=silu"],
    drops: |hparams, name| {
        let predicts = name.starts_with("model.mtp_layers.");
        latent::drop_tied(hparams, name)
            .or(predicts.then_some(drops::NO_PREDICTION))
            .or_else(|| latent::drop_mtp(hparams, name))
    },
    prepare: |hparams, _| prepare(hparams),
    ..LATENT
};

const ENDS: &[TensorRule] = &[
    TensorRule::copy(&["model.embed_tokens"], "token_embd"),
    TensorRule::copy(&["model.norm"], "output_norm"),
    // The first rule writes the file's type; the second writes f32 if the config has `enable_lm_head_fp32`.
    TensorRule::copy(&["lm_head"], "output")
        .need(Need::Optional)
        .in_layers(|hparams, _| !hparams.is_true("enable_lm_head_fp32")),
    TensorRule::copy(&["lm_head"], "output")
        .need(Need::Optional)
        .float(FloatType::F32)
        .in_layers(|hparams, _| hparams.is_true("enable_lm_head_fp32")),
];

/// The gate of what attention gives, and a score for each head that no position has.
const GATED_SINKS: &[TensorRule] = &[
    TensorRule::copy(
        &["model.layers.{bid}.self_attn.linear_gate", "model.layers.{bid}.self_attn.gate_proj"],
        "blk.{bid}.attn_gate",
    ),
    TensorRule::copy(
        &["model.layers.{bid}.self_attn.learnable_sink_param", "model.layers.{bid}.self_attn.sinks"],
        "blk.{bid}.attn_sinks",
    )
    .bare(".weight"),
];

/// Mixing of residual streams before both halves of a layer and at the end.
const STREAMS: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.hc_attn_layer.hc_pre.hc_fn"], "blk.{bid}.hc_attn_fn")
        .bare(".weight")
        .float(FloatType::F32),
    TensorRule::copy(&["model.layers.{bid}.hc_attn_layer.hc_pre.hc_base"], "blk.{bid}.hc_attn_base")
        .bare(".weight"),
    TensorRule::copy(&["model.layers.{bid}.hc_attn_layer.hc_pre.hc_scale"], "blk.{bid}.hc_attn_scale")
        .bare(".weight"),
    TensorRule::copy(&["model.layers.{bid}.hc_mlp_layer.hc_pre.hc_fn"], "blk.{bid}.hc_ffn_fn")
        .bare(".weight")
        .float(FloatType::F32),
    TensorRule::copy(&["model.layers.{bid}.hc_mlp_layer.hc_pre.hc_base"], "blk.{bid}.hc_ffn_base")
        .bare(".weight"),
    TensorRule::copy(&["model.layers.{bid}.hc_mlp_layer.hc_pre.hc_scale"], "blk.{bid}.hc_ffn_scale")
        .bare(".weight"),
    TensorRule::copy(&["model.hc_head.hc_head_fn"], "output_hc_fn").bare(".weight").float(FloatType::F32),
    TensorRule::copy(&["model.hc_head.hc_head_base"], "output_hc_base").bare(".weight"),
    TensorRule::copy(&["model.hc_head.hc_head_scale"], "output_hc_scale").bare(".weight"),
];

const EXPERTS: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.mlp.gate"], "blk.{bid}.ffn_gate_inp").need(IS_MIXTURE),
    // Stacked experts are parameters without the ending `.weight`, which the file's names have.
    TensorRule::copy(&["model.layers.{bid}.mlp.experts.down_proj"], "blk.{bid}.ffn_down_exps")
        .bare(".weight")
        .need(IS_MIXTURE),
    // (experts, 2 f, in): of each expert the rows of the gate, then those of up.
    TensorRule::part(
        &["model.layers.{bid}.mlp.experts.gate_up_proj"],
        "blk.{bid}.ffn_gate_exps",
        rules::first_half,
    )
    .bare(".weight")
    .need(IS_MIXTURE),
    TensorRule::part(
        &["model.layers.{bid}.mlp.experts.gate_up_proj"],
        "blk.{bid}.ffn_up_exps",
        rules::second_half,
    )
    .bare(".weight")
    .need(IS_MIXTURE),
];

const IS_MIXTURE: Need = Need::If(is_mixture);

/// True if a layer has an indexer, in a model that has any.
fn indexes(hparams: &Hparams, bid: u64) -> bool {
    hparams.get("indexer_types").is_some() && has_indexer(hparams, bid)
}

/// Derives values that older configs omit: the leading dense layers, and the layers with an indexer.
fn prepare(hparams: Hparams) -> Result<Hparams, ArchError> {
    let n_layers = hparams.n_layers()?;
    let mut hparams = hparams;
    // Dense layers at the start, and whether one more comes later: `first_k_dense_replace` counts leading ones only.
    let listed = hparams.get("mlp_layer_types").and_then(Json::as_array).map(|kinds| {
        let dense = kinds.iter().take_while(|kind| *kind == "dense").count();
        (dense as u64, kinds.iter().skip(dense).any(|kind| kind == "dense"))
    });
    match (hparams.get_u64("first_k_dense_replace")?, listed) {
        (_, Some((_, true))) => {
            let found = hparams.get("mlp_layer_types").cloned().unwrap_or_default();
            return Err(bad("mlp_layer_types", &found, "dense layers before all others"));
        }
        (Some(stated), Some((dense, _))) if stated != dense => {
            return Err(bad(
                "first_k_dense_replace",
                &stated.into(),
                "as many as `mlp_layer_types` begins with",
            ));
        }
        (Some(_), _) => {}
        (None, Some((dense, _))) => hparams = hparams.with("first_k_dense_replace", dense.into()),
        (None, None) => return Err(missing("first_k_dense_replace")),
    }
    let sparse = |kind: &Json| kind == "sparse_attention" || kind == "deepseek_sparse_attention";
    if hparams.get("indexer_types").is_none()
        && let Some(Json::Array(types)) = hparams.get("layer_types")
        && types.iter().any(sparse)
    {
        // `indexer_types` has two words: a layer of another kind has no indexer, so it counts as `shared`.
        let types = types.iter().map(|kind| if sparse(kind) { "full" } else { "shared" }).collect();
        hparams = hparams.with("indexer_types", types);
    }
    if let Some(Json::Array(types)) = hparams.get("indexer_types") {
        let known = types.iter().all(|kind| kind == "full" || kind == "shared");
        // No layer before the first has a choice that it could use.
        if !known || types.first().is_some_and(|first| first != "full") || (types.len() as u64) < n_layers {
            let types = Json::Array(types.clone());
            return Err(bad("indexer_types", &types, "full or shared for each layer, full for the first"));
        }
    }
    Ok(hparams)
}

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    // One group contains all experts: without the keys llama.cpp chooses among all.
    let is_one = |key| hparams.get(key).is_some_and(|count| *count == 1);
    if is_one("n_group") && is_one("topk_group") {
        latent::keys(&hparams.without("n_group").without("topk_group"), keys)?
    } else {
        latent::keys(hparams, keys)?
    }
    // Scores go through a sigmoid, which no key of the config says.
    keys.set_prefixed("expert_gating_func", Value::U32(2));
    let n_layers = hparams.n_layers()?;
    let limit = hparams.get_f64("swiglu_limit")?.unwrap_or(0.0);
    if limit > 0.0 {
        glm5_next::clamps(keys, "swiglu_clamp_exp", limit as f32, n_layers)?;
    }
    keys.needed("hyper_connection.count", hparams, &["hc_mult"])?;
    keys.needed_number("hyper_connection.epsilon", hparams, &["hc_eps"])?;
    keys.needed_number("hyper_connection.magnitude", hparams, &["hc_magnitude"])?;
    if hparams.get("indexer_types").is_some() {
        deepseek32::indexer_keys(hparams, keys)?;
        glm_dsa::indexer_types(hparams, keys);
    }
    Ok(())
}

/// `HYV4Config`.
const HY_V4_CONFIG: ConfigClass = ConfigClass::new("hy_v4").adjusted(|map| {
    adjust::kinds(map, "mlp_layer_types", |layer| if layer == 0 { "dense" } else { "sparse" })?;
    adjust::kinds(map, "layer_types", |_| "indexed_attention")?;
    adjust::kinds(map, "indexer_types", |layer| {
        // Layers 0, 1, 5, 9 and so on have an indexer.
        if layer == 0 || (layer - 1).is_multiple_of(4) { "full" } else { "shared" }
    })?;
    latent::rotated_part(map)
});

//! GLM 5.3 Flash, the text part: Kimi's delta attention, latent attention with an indexer, several residual
//! streams.
//!
//! Config keys: those of every text model; layers with linear attention, its convolution and heads; ranks of
//! the latent attention; the indexer, which sees pools of keys; residual streams; experts.
//!
//! Transforms: those of DeepSeek 3.2 for latent layers; kernels of convolutions get a dimension; the decay is
//! minus the exponential of the stored value. Mixers of residual streams stay in f32.
//!
//! Source: `Glm5NextModel` in `conversion/glm.py`.

use crate::families::deepseek::convert::deepseek32;
use crate::families::glm::convert::glm_dsa::{self, has_indexer};
use crate::families::glm::convert::{glm4_moe_lite, glm4moe};
use crate::parts::latent;
use crate::prelude::*;

pub const GLM5_NEXT: Arch = Arch {
    name: "glm5-next",
    classes: &[Class::new("Glm5NextForConditionalGeneration")],
    example: "zai-org/GLM-5.3-Flash",
    configs: &[GLM5_NEXT_TEXT_CONFIG, GLM5_NEXT_CONFIG],
    needs: &["hidden_size", "num_hidden_layers", "num_attention_heads", "kv_lora_rank", "vocab_size"],
    tensors: &[
        rules::DECODER_ENDS,
        rules::PRE_NORMS,
        // A layer has delta attention or latent attention, never both.
        &delta_attention(is_linear),
        GATES,
        &latent::latent(|hparams, bid| !is_linear(hparams, bid)),
        &deepseek32::indexer(chooses),
        POOLS,
        STREAMS,
        &rules::gated_mlp(Need::If(|hparams, bid| !is_mixture(hparams, bid))),
        &rules::qwen_experts(Need::If(is_mixture)),
        &rules::shared_experts(Need::If(is_mixture)),
        latent::CORRECTION,
        glm4moe::PREDICTION,
    ],
    keys,
    drops: latent::drop_tied,
    prepare: |hparams, tensors| {
        let hparams = glm4moe::count_predicted(hparams, tensors)?;
        // An announced count of zero means none.
        Ok(match hparams.get_u64(glm4moe::PREDICTED)? {
            Some(0) => hparams.without(glm4moe::PREDICTED),
            _ => hparams,
        })
    },
    prediction: Some(glm4moe::PREDICTED_LAYERS),
    vocab: glm4moe::ROUTE,
    ..DECODER
};

/// Kimi's delta attention: three convolutions of one channel each, a decay for each channel of low rank.
pub const fn delta_attention(layers: InLayers) -> [TensorRule; 13] {
    [
        TensorRule::copy(&["model.layers.{bid}.self_attn.q_proj"], "blk.{bid}.attn_q").in_layers(layers),
        TensorRule::copy(&["model.layers.{bid}.self_attn.k_proj"], "blk.{bid}.attn_k").in_layers(layers),
        TensorRule::copy(&["model.layers.{bid}.self_attn.v_proj"], "blk.{bid}.attn_v").in_layers(layers),
        // Queries, keys and values have a convolution each, with one kernel for each channel.
        TensorRule::copy(&["model.layers.{bid}.self_attn.q_conv1d"], "blk.{bid}.ssm_conv1d_q")
            .shape(KERNELS)
            .in_layers(layers),
        TensorRule::copy(&["model.layers.{bid}.self_attn.k_conv1d"], "blk.{bid}.ssm_conv1d_k")
            .shape(KERNELS)
            .in_layers(layers),
        TensorRule::copy(&["model.layers.{bid}.self_attn.v_conv1d"], "blk.{bid}.ssm_conv1d_v")
            .shape(KERNELS)
            .in_layers(layers),
        // Decay of low rank, f = f_b (f_a x): f_a (rank, in), f_b (out, rank).
        TensorRule::copy(&["model.layers.{bid}.self_attn.f_a_proj"], "blk.{bid}.ssm_f_a").in_layers(layers),
        TensorRule::copy(&["model.layers.{bid}.self_attn.f_b_proj"], "blk.{bid}.ssm_f_b").in_layers(layers),
        TensorRule::copy(&["model.layers.{bid}.self_attn.b_proj"], "blk.{bid}.ssm_beta").in_layers(layers),
        // A = -exp(A_log); (1, 1, heads, 1) in the checkpoint, a vector here.
        TensorRule::copy(&["model.layers.{bid}.self_attn.A_log"], "blk.{bid}.ssm_a")
            .bare("")
            .element(ElementMap::MinusExp)
            .shape(DECAYS)
            .in_layers(layers),
        TensorRule::copy(&["model.layers.{bid}.self_attn.dt_bias"], "blk.{bid}.ssm_dt")
            .bare(".bias")
            .in_layers(layers),
        TensorRule::copy(&["model.layers.{bid}.self_attn.o_norm"], "blk.{bid}.ssm_norm").in_layers(layers),
        TensorRule::copy(&["model.layers.{bid}.self_attn.o_proj"], "blk.{bid}.attn_output").in_layers(layers),
    ]
}

/// The gate of the delta attention, of low rank.
const GATES: &[TensorRule] = &[
    // Two matrices replace one: g = g_b (g_a x).
    TensorRule::copy(&["model.layers.{bid}.self_attn.g_a_proj"], "blk.{bid}.ssm_g_a").in_layers(is_linear),
    TensorRule::copy(&["model.layers.{bid}.self_attn.g_b_proj"], "blk.{bid}.ssm_g_b").in_layers(is_linear),
];

/// (channels, 1, kernel) as (1, channels, 1, kernel).
const KERNELS: Reshape = Reshape {
    forward: |_, dims| {
        // Fastest dimension first: (kernel, 1, channels) becomes (kernel, 1, channels, 1).
        let channels = dims.iter().skip(1).product();
        Ok(vec![dims.first().copied().unwrap_or(0), 1, channels, 1])
    },
    inverse: |dims| dims.iter().take(3).copied().collect(),
};

/// (1, 1, heads, 1) as a vector.
const DECAYS: Reshape =
    Reshape { forward: |_, dims| Ok(rules::flat(dims)), inverse: |dims| [&[1][..], dims, &[1, 1]].concat() };

/// Merging the keys of a pool.
const POOLS: &[TensorRule] = &[
    TensorRule::copy(
        &["model.layers.{bid}.self_attn.indexer.index_kpool_compress_gate"],
        "blk.{bid}.indexer_compressor_gate",
    )
    .bare(".weight")
    .float(FloatType::F32)
    .in_layers(chooses),
    TensorRule::copy(
        &["model.layers.{bid}.self_attn.indexer.index_kpool_compress_ape"],
        "blk.{bid}.indexer_compressor_ape",
    )
    .bare(".weight")
    .float(FloatType::F32)
    .in_layers(chooses),
];

/// Mixing of a layer's residual streams before attention and before the feed-forward part. An MTP layer has
/// one stream.
const STREAMS: &[TensorRule] = &[
    // Two mixers in each layer, of a matrix, a base and a scale; all stay f32 in files of any type.
    TensorRule::copy(&["model.layers.{bid}.hc_attn_fn"], "blk.{bid}.hc_attn_fn")
        .bare(".weight")
        .float(FloatType::F32)
        .need(IN_TRUNK),
    TensorRule::copy(&["model.layers.{bid}.hc_attn_base"], "blk.{bid}.hc_attn_base")
        .bare(".weight")
        .float(FloatType::F32)
        .need(IN_TRUNK),
    TensorRule::copy(&["model.layers.{bid}.hc_attn_scale"], "blk.{bid}.hc_attn_scale")
        .bare(".weight")
        .float(FloatType::F32)
        .need(IN_TRUNK),
    TensorRule::copy(&["model.layers.{bid}.hc_ffn_fn"], "blk.{bid}.hc_ffn_fn")
        .bare(".weight")
        .float(FloatType::F32)
        .need(IN_TRUNK),
    TensorRule::copy(&["model.layers.{bid}.hc_ffn_base"], "blk.{bid}.hc_ffn_base")
        .bare(".weight")
        .float(FloatType::F32)
        .need(IN_TRUNK),
    TensorRule::copy(&["model.layers.{bid}.hc_ffn_scale"], "blk.{bid}.hc_ffn_scale")
        .bare(".weight")
        .float(FloatType::F32)
        .need(IN_TRUNK),
];

const IN_TRUNK: Need = Need::If(|hparams, bid| !is_predicted(hparams, bid));

/// True if the feed-forward part of a layer is a mixture. The Hub's files take precedence over the list that
/// transformers computes by default.
fn is_mixture(hparams: &Hparams, bid: u64) -> bool {
    match hparams.get("first_k_dense_replace") {
        Some(_) => latent::is_mixture(hparams, bid),
        None => glm4_moe_lite::is_mixture(hparams, bid),
    }
}

/// True for an MTP layer; MTP layers come last.
fn is_predicted(hparams: &Hparams, bid: u64) -> bool {
    let predicted = hparams.get_u64(glm4moe::PREDICTED).ok().flatten().unwrap_or(0);
    // The number of layers counts those of the prediction, which are the last ones.
    bid >= hparams.n_layers().unwrap_or(0).saturating_sub(predicted)
}

/// True if a layer has linear attention; unlisted layers do not.
fn is_linear(hparams: &Hparams, bid: u64) -> bool {
    let kind = hparams.get("layer_types").and_then(|types| types.get(usize::try_from(bid).ok()?));
    kind.is_some_and(|kind| kind == "linear_attention")
}

fn chooses(hparams: &Hparams, bid: u64) -> bool {
    !is_linear(hparams, bid) && has_indexer(hparams, bid)
}

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    text_keys(&hparams.without("head_dim"), keys)?;
    let n_layers = hparams.n_layers()?;
    // No key head marks linear attention; latent attention has one.
    let heads = (0..n_layers).map(|bid| i32::from(!is_linear(hparams, bid))).collect();
    keys.derived_from("attention.head_count_kv", &["layer_types"]);
    keys.set_prefixed("attention.head_count_kv", Value::Array(Array::I32(heads)));
    keys.vocab_size(hparams)?;
    keys.set_prefixed("attention.layer_norm_epsilon", Value::F32(1e-6));
    keys.count("nextn_predict_layers", hparams, &[glm4moe::PREDICTED])?;
    linear_keys(hparams, keys)?;
    let rotated = hparams.need_u64(&["qk_rope_head_dim"])?;
    if rotated != 0 || !hparams.is_true("mla_use_nope") && hparams.get("mla_use_nope").is_some() {
        return Err(bad(
            "qk_rope_head_dim",
            &rotated.into(),
            "0: latent attention of this architecture is not rotated",
        ));
    }
    keys.needed("attention.q_lora_rank", hparams, &["q_lora_rank"])?;
    let rank = hparams.need_u64(&["kv_lora_rank"])?;
    keys.set_derived("attention.kv_lora_rank", "kv_lora_rank", rank)?;
    keys.set_derived("rope.dimension_count", "qk_rope_head_dim", rotated)?;
    // rank + rotated, of which the second is 0: keys and values are both the latent vector.
    keys.set_derived("attention.key_length", "kv_lora_rank", rank)?;
    keys.set_derived("attention.value_length", "kv_lora_rank", rank)?;
    // Lengths of a head once `kv_b` has unpacked the latent vector.
    keys.needed("attention.key_length_mla", hparams, &["qk_nope_head_dim"])?;
    keys.needed("attention.value_length_mla", hparams, &["v_head_dim"])?;
    deepseek32::indexer_keys(hparams, keys)?;
    keys.needed("attention.indexer.kpool", hparams, &["index_kpool"])?;
    // Only an outright false turns it off.
    let tail = hparams.get("index_kpool_always_select_tail") != Some(&Json::Bool(false));
    keys.derived_from("attention.indexer.kpool_select_tail", &["index_kpool_always_select_tail"]);
    keys.set_prefixed("attention.indexer.kpool_select_tail", Value::Bool(tail));
    glm_dsa::indexer_types(hparams, keys);
    keys.needed("hyper_connection.count", hparams, &["hc_mult"])?;
    keys.needed("hyper_connection.sinkhorn_iterations", hparams, &["hc_sinkhorn_iters"])?;
    keys.needed_number("hyper_connection.epsilon", hparams, &["hc_eps"])?;
    let dense = leading_dense(hparams)?;
    keys.set_derived("leading_dense_block_count", "first_k_dense_replace", dense)?;
    keys.needed("expert_feed_forward_length", hparams, &["moe_intermediate_size"])?;
    keys.needed("expert_shared_count", hparams, &["n_shared_experts"])?;
    keys.needed_number("expert_weights_scale", hparams, &["routed_scaling_factor"])?;
    keys.flag("expert_weights_norm", hparams, "norm_topk_prob");
    if let Some(limit) = hparams.get("swiglu_limit") {
        clamps(keys, "swiglu_clamp_exp", to_f32("swiglu_limit", limit)?, n_layers)?;
        clamps(keys, "swiglu_clamp_shexp", to_f32("swiglu_limit", limit)?, n_layers)?;
    }
    Ok(())
}

/// Bounds of what enters the gate of an expert, for each layer.
pub fn clamps(keys: &mut Keys, key: &str, limit: f32, n_layers: u64) -> Result<(), ArchError> {
    if n_layers > 10_000 {
        return Err(bad("num_hidden_layers", &n_layers.into(), "at most 10000"));
    }
    // The config has one bound for all; the file has it once for each layer.
    keys.derived_from(key, &["swiglu_limit"]);
    keys.set_prefixed(key, Value::Array(Array::F32(vec![limit; n_layers as usize])));
    Ok(())
}

/// The number of layers before the first mixture.
fn leading_dense(hparams: &Hparams) -> Result<u64, ArchError> {
    match hparams.get_u64("first_k_dense_replace")? {
        Some(dense) => Ok(dense),
        None => {
            let n_layers = hparams.n_layers()?;
            Ok((0..n_layers).take(10_000).take_while(|bid| !is_mixture(hparams, *bid)).count() as u64)
        }
    }
}

/// Convolution and heads of the linear attention, as the Hub's files and as transformers spell them.
pub fn linear_keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    let linear = hparams.get("linear_attn_config");
    let of = |inner: &str, flat: &'static str| {
        linear
            .and_then(|linear| linear.get(inner))
            .filter(|value| !value.is_null())
            .or_else(|| hparams.get(flat))
    };
    for (key, inner, flat) in [
        // The Hub has `linear_attn_config.head_dim`, transformers `linear_head_dim` at the top level.
        ("ssm.conv_kernel", "short_conv_kernel_size", "linear_conv_kernel_dim"),
        ("kda.head_dim", "head_dim", "linear_head_dim"),
    ] {
        keys.derived_from(key, &[flat]);
        let count = of(inner, flat).ok_or_else(|| missing(flat))?;
        keys.set_prefixed(key, Value::U32(to_u32(flat, count)?));
    }
    keys.derived_from("kda.gate_lower_bound", &["linear_lower_bound"]);
    if let Some(bound) = of("gate_lower_bound", "linear_lower_bound") {
        keys.set_prefixed("kda.gate_lower_bound", Value::F32(to_f32("linear_lower_bound", bound)?));
    }
    Ok(())
}

/// `Glm5NextTextConfig`.
const GLM5_NEXT_TEXT_CONFIG: ConfigClass =
    ConfigClass::new("glm5_next_text").adjusted(|map| {
        adjust::kinds(map, "mlp_layer_types", |layer| if layer < 3 { "dense" } else { "sparse" })?;
        // Three linear layers, then one of latent attention with an indexer.
        adjust::kinds(map, "layer_types", |layer| {
            if layer % 4 == 3 { "indexed_attention" } else { "linear_attention" }
        })?;
        glm_dsa::indexers(map)
    });

/// `Glm5NextConfig`: text and images.
const GLM5_NEXT_CONFIG: ConfigClass =
    ConfigClass::new("glm5_next").adjusted(|map| adjust::text_config_or_flat(map, &GLM5_NEXT_TEXT_CONFIG));

//! Ling 3: delta attention (KDA) in most layers, latent attention in the others, and a mixture of experts; also the text
//! part of its variant with eyes.
//!
//! Config keys: those of every text model with one key head; key heads by layer, 0 for delta attention; limits of its gates;
//! lengths of the latent attention; experts, their weights and limits of their activations; layers of multi-token
//! prediction.
//!
//! Transforms: those of Kimi Linear, but that the decay keeps its sign. Layers of multi-token prediction follow the others.
//!
//! Source: `BailingMoeV3Model` and `BailingMoeV3VLModel` in `conversion/bailingmoe3.py`.

use crate::families::bailing::convert::bailingmoe;
use crate::families::glm::convert::glm4moe::{PREDICTED, PREDICTION, count_predicted};
use crate::families::kimi::convert::kimi_linear;
use crate::parts::latent;
use crate::prelude::*;

pub const BAILINGMOE3: Arch = Arch {
    name: "bailingmoe3",
    classes: &[Class::new("BailingMoeV3ForCausalLM"), Class::new("BailingMoeV3VLForConditionalGeneration")],
    example: "inclusionAI/Ling-3.0-flash",
    needs: &["hidden_size", "num_hidden_layers", "num_attention_heads", "kv_lora_rank", "vocab_size"],
    tensors: &[
        bailingmoe::ENDS,
        rules::PRE_NORMS,
        ATTENTION,
        LATENT,
        DELTA,
        &rules::gated_mlp(Need::If(|hparams, bid| !is_mixture(hparams, bid))),
        &rules::qwen_experts(Need::If(is_mixture)),
        &rules::shared_experts(Need::If(is_mixture)),
        PREDICTION,
    ],
    keys,
    rename,
    prepare: count_predicted,
    harmless: &["hidden_act=silu"],
    drops: |_, name| name.starts_with("linear_proj").then_some("part of an image, sound or speech model"),
    export_name,
    from_file,
    ..DECODER
};

const ATTENTION: &[TensorRule] = &[
    TensorRule::copy(
        &["model.layers.{bid}.attention.o_proj", "model.layers.{bid}.attention.dense"],
        "blk.{bid}.attn_output",
    ),
    TensorRule::copy(&["model.layers.{bid}.mlp.gate.expert_bias"], "blk.{bid}.exp_probs_b")
        .bare(".bias")
        .need(Need::Optional),
    TensorRule::copy(&["model.layers.{bid}.final_layernorm"], "blk.{bid}.layer_output_norm")
        .need(Need::Optional),
];

/// Latent attention with a gate for each head.
const LATENT: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.attention.q_a_proj"], "blk.{bid}.attn_q_a").need(HAS_Q_RANK),
    TensorRule::copy(&["model.layers.{bid}.attention.q_a_layernorm"], "blk.{bid}.attn_q_a_norm")
        .need(HAS_Q_RANK),
    TensorRule::copy(&["model.layers.{bid}.attention.q_b_proj"], "blk.{bid}.attn_q_b").need(HAS_Q_RANK),
    TensorRule::copy(&["model.layers.{bid}.attention.kv_a_proj_with_mqa"], "blk.{bid}.attn_kv_a_mqa")
        .need(IS_LATENT),
    TensorRule::copy(&["model.layers.{bid}.attention.kv_a_layernorm"], "blk.{bid}.attn_kv_a_norm")
        .need(IS_LATENT),
    // kv_b_proj contains for each head W_uk above W_uv. attn_k_b is W_uk transposed, attn_v_b is W_uv, by head.
    TensorRule::transposed(
        &["model.layers.{bid}.attention.kv_b_proj"],
        "blk.{bid}.attn_k_b",
        latent::head_keys,
    )
    .need(IS_LATENT),
    TensorRule::part(&["model.layers.{bid}.attention.kv_b_proj"], "blk.{bid}.attn_v_b", latent::head_values)
        .shape(latent::BY_HEAD)
        .need(IS_LATENT),
    TensorRule::copy(&["model.layers.{bid}.attention.latent_g_proj"], "blk.{bid}.attn_gate").need(IS_LATENT),
];

/// Delta attention.
const DELTA: &[TensorRule] = &[
    // Also of latent attention whose queries have no rank.
    TensorRule::copy(&["model.layers.{bid}.attention.q_proj"], "blk.{bid}.attn_q")
        .need(Need::If(|hparams, bid| !is_latent(hparams, bid) || hparams.get("q_lora_rank").is_none())),
    TensorRule::copy(&["model.layers.{bid}.attention.k_proj"], "blk.{bid}.attn_k").need(IS_DELTA),
    TensorRule::copy(&["model.layers.{bid}.attention.v_proj"], "blk.{bid}.attn_v").need(IS_DELTA),
    TensorRule::copy(&["model.layers.{bid}.attention.q_conv1d"], "blk.{bid}.ssm_conv1d_q")
        .shape(kimi_linear::KERNEL)
        .need(IS_DELTA),
    TensorRule::copy(&["model.layers.{bid}.attention.k_conv1d"], "blk.{bid}.ssm_conv1d_k")
        .shape(kimi_linear::KERNEL)
        .need(IS_DELTA),
    TensorRule::copy(&["model.layers.{bid}.attention.v_conv1d"], "blk.{bid}.ssm_conv1d_v")
        .shape(kimi_linear::KERNEL)
        .need(IS_DELTA),
    // One full matrix where Kimi Linear has two of a low rank: `keys` insists on `no_kda_lora`.
    TensorRule::copy(&["model.layers.{bid}.attention.f_proj"], "blk.{bid}.ssm_f_a").need(IS_DELTA),
    TensorRule::copy(&["model.layers.{bid}.attention.b_proj"], "blk.{bid}.ssm_beta").need(IS_DELTA),
    TensorRule::copy(&["model.layers.{bid}.attention.g_proj"], "blk.{bid}.ssm_g_a").need(IS_DELTA),
    // w = exp(A_log), without the minus that Kimi Linear's has.
    TensorRule::copy(&["model.layers.{bid}.attention.A_log"], "blk.{bid}.ssm_a")
        .bare("")
        .shape(AS_COLUMN)
        .element(ElementMap::Exp)
        .need(IS_DELTA),
    TensorRule::copy(&["model.layers.{bid}.attention.dt_bias"], "blk.{bid}.ssm_dt")
        .bare(".bias")
        .need(IS_DELTA),
    TensorRule::copy(&["model.layers.{bid}.attention.o_norm"], "blk.{bid}.ssm_norm").need(IS_DELTA),
];

/// All elements as a column of rows of one element.
const AS_COLUMN: Reshape =
    Reshape { forward: |_, dims| Ok(vec![1, dims.iter().product()]), inverse: rules::flat };

const IS_LATENT: Need = Need::If(is_latent);
const IS_DELTA: Need = Need::If(|hparams, bid| !is_latent(hparams, bid));
const HAS_Q_RANK: Need =
    Need::If(|hparams, bid| is_latent(hparams, bid) && hparams.get("q_lora_rank").is_some());

/// True if a layer has latent attention: the last of every group, all after the last group, and MTP layers.
fn is_latent(hparams: &Hparams, bid: u64) -> bool {
    let predicted = hparams.get_u64(PREDICTED).ok().flatten().unwrap_or(0);
    let trunk = hparams.n_layers().unwrap_or(0).saturating_sub(predicted);
    let group = hparams.get_u64("layer_group_size").ok().flatten().unwrap_or(1).max(1);
    // With 20 layers in groups of 8: 7 and 15, then 16 to 19, which fill no group.
    bid >= trunk || (bid + 1).is_multiple_of(group) || bid >= trunk / group * group
}

fn is_mixture(hparams: &Hparams, bid: u64) -> bool {
    bid >= hparams.get_u64("first_k_dense_replace").ok().flatten().unwrap_or(0)
}

/// The gates of both kinds of attention have one name in checkpoints.
fn rename(hparams: &Hparams, name: &str) -> Option<String> {
    let layer = name.strip_prefix("model.layers.")?.strip_suffix(".attention.g_proj.weight")?;
    let is_gate = is_latent(hparams, layer.parse().ok()?);
    is_gate.then(|| format!("model.layers.{layer}.attention.latent_g_proj.weight"))
}

/// Both kinds of attention have one name for their gates, and two for their outputs.
fn export_name(hparams: &Hparams, _: Class, name: &str) -> Option<String> {
    let (layer, rest) = name.strip_prefix("model.layers.")?.split_once('.')?;
    let rest = match rest {
        "attention.latent_g_proj.weight" => "attention.g_proj.weight",
        "attention.o_proj.weight" if is_latent(hparams, layer.parse().ok()?) => "attention.dense.weight",
        _ => return None,
    };
    Some(format!("model.layers.{layer}.{rest}"))
}

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    // Values that llama.cpp's graph assumes.
    for (key, expected) in [
        ("no_kda_lora", Json::Bool(true)),
        ("kda_safe_gate", Json::Bool(true)),
        ("gated_attention_proj_granularity_type", "head_wise".into()),
    ] {
        let found = hparams.get(key).cloned().unwrap_or_default();
        if found != expected {
            return Err(bad(key, &found, "what Ling 3 has"));
        }
    }
    // Latent attention caches one key for all heads.
    text_keys(&hparams.with("num_key_value_heads", 1.into()), keys)?;
    let n_layers = hparams.n_layers()?.min(10_000);
    let heads = (0..n_layers).map(|bid| i32::from(is_latent(hparams, bid))).collect();
    keys.set_prefixed("attention.head_count_kv", Value::Array(Array::I32(heads)));
    keys.vocab_size(hparams)?;
    keys.needed("ssm.conv_kernel", hparams, &["short_conv_kernel_size"])?;
    keys.needed("kda.head_dim", hparams, &["head_dim"])?;
    keys.flag("kda.safe_gate", hparams, "kda_safe_gate");
    keys.needed_number("kda.gate_lower_bound", hparams, &["kda_lower_bound"])?;
    let (rank, rotated) = (hparams.need_u64(&["kv_lora_rank"])?, hparams.need_u64(&["qk_rope_head_dim"])?);
    keys.count("attention.q_lora_rank", hparams, &["q_lora_rank"])?;
    keys.set_derived("attention.kv_lora_rank", "kv_lora_rank", rank)?;
    keys.set_derived("rope.dimension_count", "qk_rope_head_dim", rotated)?;
    // Cached per token: the latent vector and the rotated part, side by side.
    keys.set_derived("attention.key_length", "kv_lora_rank", rank.saturating_add(rotated))?;
    let plain = hparams.need_u64(&["qk_nope_head_dim"])?;
    // Input of a head: its plain part, expanded from the latent vector, and the rotated part.
    keys.set_derived("attention.key_length_mla", "qk_nope_head_dim", plain.saturating_add(rotated))?;
    keys.needed("attention.value_length_mla", hparams, &["v_head_dim"])?;
    keys.needed("expert_feed_forward_length", hparams, &["moe_intermediate_size"])?;
    let shared = "expert_shared_feed_forward_length";
    keys.needed(shared, hparams, &["moe_shared_expert_intermediate_size"])?;
    let n_shared = hparams.get_u64("num_shared_experts")?.unwrap_or(1);
    keys.set_derived("expert_shared_count", "num_shared_experts", n_shared)?;
    keys.needed("leading_dense_block_count", hparams, &["first_k_dense_replace"])?;
    keys.needed_number("expert_weights_scale", hparams, &["routed_scaling_factor"])?;
    keys.flag("expert_weights_norm", hparams, "norm_topk_prob");
    limits(hparams, keys, "swiglu_clamp_exp", "expert_swiglu_limit_list")?;
    limits(hparams, keys, "swiglu_clamp_shexp", "share_expert_swiglu_limit_list")?;
    if hparams.get_u64(PREDICTED)?.is_some_and(|count| count > 0) {
        keys.count("nextn_predict_layers", hparams, &[PREDICTED])?;
    }
    // Time, height and width of the variant with eyes count rotated pairs.
    if let Some(sections) = hparams.get("mrope_section").filter(|_| hparams.get("vision_config").is_some()) {
        let counts =
            sections.as_array().into_iter().flatten().take(3).map(|count| to_i32("mrope_section", count));
        let mut counts = counts.collect::<Result<Vec<_>, _>>()?;
        if counts.iter().map(|count| i64::from(*count) * 2).sum::<i64>() != rotated as i64 {
            return Err(bad("mrope_section", sections, "half of `qk_rope_head_dim` together"));
        }
        // llama.cpp's key has four sections, of which the last is not used here.
        counts.resize(4, 0);
        keys.set_prefixed("rope.dimension_sections", Value::Array(Array::I32(counts)));
    }
    Ok(())
}

/// Activation limits by layer; 0 for a layer without one.
fn limits(hparams: &Hparams, keys: &mut Keys, key: &str, name: &'static str) -> Result<(), ArchError> {
    let Some(list) = hparams.get(name) else { return Ok(()) };
    let list = list.as_array().ok_or_else(|| bad(name, list, "a list"))?;
    let n_layers = hparams.n_layers()?.min(10_000) as usize;
    let limit = |limit: &Json| if limit.is_null() { Ok(0.0) } else { to_f32(name, limit) };
    let mut limits = list.iter().take(n_layers).map(limit).collect::<Result<Vec<_>, _>>()?;
    limits.resize(n_layers, 0.0);
    keys.set_prefixed(key, Value::Array(Array::F32(limits)));
    Ok(())
}

/// The size of groups of layers, lengths of both kinds of heads, and what the graph takes for granted.
fn from_file(file: &FileKeys<'_>, config: &mut Map<String, Json>) {
    for (key, value) in [("no_kda_lora", true), ("kda_safe_gate", true)] {
        config.insert(key.into(), value.into());
    }
    config.insert("gated_attention_proj_granularity_type".into(), "head_wise".into());
    // The first layer with latent attention ends a group.
    let latent = file.flags("attention.head_count_kv").unwrap_or_default();
    let group = latent.iter().position(|latent| *latent).map_or(latent.len(), |first| first + 1);
    config.insert("layer_group_size".into(), group.into());
    set(config, "num_key_value_heads", file.count("attention.head_count"));
    file.latent_lengths(config);
    for (name, key) in [
        ("head_dim", "kda.head_dim"),
        ("short_conv_kernel_size", "ssm.conv_kernel"),
        ("num_experts", "expert_count"),
        ("moe_intermediate_size", "expert_feed_forward_length"),
        ("moe_shared_expert_intermediate_size", "expert_shared_feed_forward_length"),
        ("num_shared_experts", "expert_shared_count"),
        ("first_k_dense_replace", "leading_dense_block_count"),
        (PREDICTED, "nextn_predict_layers"),
    ] {
        set(config, name, file.count(key));
    }
    config.remove("num_local_experts");
    for (name, key) in
        [("kda_lower_bound", "kda.gate_lower_bound"), ("routed_scaling_factor", "expert_weights_scale")]
    {
        config.extend(file.number(key).map(|number| (name.to_owned(), number.into())));
    }
    for (name, key) in [
        ("expert_swiglu_limit_list", "swiglu_clamp_exp"),
        ("share_expert_swiglu_limit_list", "swiglu_clamp_shexp"),
    ] {
        config.extend(file.decimals(key).map(|limits| (name.to_owned(), limits)));
    }
    if let Some(mut sections) = file.counts("rope.dimension_sections") {
        sections.truncate(3);
        config.insert("mrope_section".into(), sections.into());
        config.insert("vision_config".into(), json!({}));
        config.insert("architectures".into(), json!(["BailingMoeV3VLForConditionalGeneration"]));
        for key in ["rope_scaling", "rope_parameters"] {
            config.remove(key);
        }
    }
}

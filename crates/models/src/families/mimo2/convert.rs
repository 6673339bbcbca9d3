//! MiMo V2: mixtures of experts with windows, sinks, and values that are shorter than keys.
//!
//! Config keys: those of every text model with key heads by layer, the window and which layers have it, the experts, the
//! rotated dimensions, the factor of values, layers of multi-token prediction.
//!
//! Transforms: experts become one tensor. The prediction's layers, `model.mtp.layers.`, follow the last one.
//!
//! Source: `MimoV2Model` in `conversion/mimo.py`. It needs keys that transformers 5.23 takes out of a config, so files are
//! read as they stand.

use crate::families::glm::convert::glm4moe::{self, PREDICTED};
use crate::prelude::*;

pub const MIMO2: Arch = Arch {
    name: "mimo2",
    classes: &[Class::new("MiMoV2FlashForCausalLM"), Class::new("MiMoV2ForCausalLM")],
    example: "XiaomiMiMo/MiMo-V2-Flash",
    raw_config: true,
    tensors: &[
        rules::DECODER_ENDS,
        rules::PRE_NORMS,
        ATTENTION,
        &rules::gated_mlp(Need::If(|hparams, bid| is_trunk(hparams, bid) && !is_mixture(hparams, bid))),
        ROUTER,
        &rules::gate_up_down_experts(IS_MIXTURE),
        CORRECTION,
        glm4moe::PREDICTION,
        PREDICTION,
    ],
    keys,
    rename,
    export_name,
    prepare,
    from_file,
    harmless: &[
        "add_swa_attention_sink_bias",
        "hidden_act=silu",
        "norm_topk_prob=true",
        "sliding_window_size",
    ],
    built_in: &[
        NORMALIZES_EXPERTS,
        BuiltIn::is("attention_bias", &["false"]),
        BuiltIn::unless(
            "rope_parameters.partial_rotary_factor",
            "one part in all layers",
            |hparams, part| {
                let other = hparams.rope_sliding().and_then(|sliding| sliding.get("partial_rotary_factor"));
                other.is_none_or(|other| other == part)
            },
        ),
    ],
    ..DECODER
};

const ATTENTION: &[TensorRule] = &[
    // Releases have three projections, or one.
    TensorRule::copy(&["model.layers.{bid}.self_attn.q_proj"], "blk.{bid}.attn_q").need(Need::Optional),
    TensorRule::copy(&["model.layers.{bid}.self_attn.k_proj"], "blk.{bid}.attn_k").need(Need::Optional),
    TensorRule::copy(&["model.layers.{bid}.self_attn.v_proj"], "blk.{bid}.attn_v").need(Need::Optional),
    TensorRule::copy(&["model.layers.{bid}.self_attn.qkv_proj"], "blk.{bid}.attn_qkv").need(Need::Optional),
    TensorRule::copy(&["model.layers.{bid}.self_attn.o_proj"], "blk.{bid}.attn_output"),
    TensorRule::copy(
        &[
            "model.layers.{bid}.self_attn.attention_sink_bias",
            "model.layers.{bid}.self_attn.attention_sink_bias.weight",
        ],
        "blk.{bid}.attn_sinks",
    )
    .bare(".weight")
    .need(Need::Optional),
];

const IS_MIXTURE: Need = Need::If(|hparams, bid| is_trunk(hparams, bid) && is_mixture(hparams, bid));

const ROUTER: &[TensorRule] =
    &[TensorRule::copy(&["model.layers.{bid}.mlp.gate"], "blk.{bid}.ffn_gate_inp").need(IS_MIXTURE)];

const CORRECTION: &[TensorRule] =
    &[TensorRule::copy(&["model.layers.{bid}.mlp.gate.e_score_correction"], "blk.{bid}.exp_probs_b")
        .need(Need::Optional)];

const PREDICTION: &[TensorRule] = &[
    // An MTP layer has its own names for the norm before its feed-forward part and for the final one.
    TensorRule::copy(&["model.layers.{bid}.pre_mlp_layernorm"], "blk.{bid}.ffn_norm").need(Need::Optional),
    TensorRule::copy(&["model.layers.{bid}.final_layernorm"], "blk.{bid}.layer_output_norm")
        .need(Need::Optional),
];

/// The start of names of the prediction's layers.
const MTP: &str = "model.mtp.layers.";

/// Layers of the prediction beyond which a checkpoint is broken; released models have three.
const MAX_PREDICTED: u64 = 1000;

/// Counts the layers of the prediction, of which the config does not speak, among the others.
fn prepare(hparams: Hparams, tensors: &[SourceTensor]) -> Result<Hparams, ArchError> {
    let trunk = hparams.n_layers()?;
    let layer = |tensor: &SourceTensor| tensor.name.strip_prefix(MTP)?.split_once('.')?.0.parse::<u64>().ok();
    // Layers are numbered from 0, so their count is the greatest number and one.
    let found = || tensors.iter().filter_map(layer).max().map_or(0, |last| last.saturating_add(1));
    let mut stated = hparams.get_u64(PREDICTED)?;
    let mut hparams = hparams;
    // An exported file has the names of the table. A tokenizer by itself has no tensors.
    let in_table = format!("model.layers.{trunk}.");
    let is_part = |tensor: &SourceTensor| tensor.name.starts_with(MTP) || tensor.name.starts_with(&in_table);
    if let Some(predicted) = stated.filter(|_| !tensors.is_empty() && !tensors.iter().any(is_part)) {
        hparams = glm4moe::without_predicted(hparams, PREDICTED, predicted);
        stated = None;
    }
    let predicted = stated.unwrap_or_else(found);
    if predicted > MAX_PREDICTED {
        return Err(bad(PREDICTED, &predicted.into(), "at most 1000"));
    }
    let mut hparams = hparams.with("num_hidden_layers", trunk.saturating_add(predicted).into());
    hparams.derived.trunk_layers = Some(trunk);
    Ok(hparams)
}

fn rename(hparams: &Hparams, name: &str) -> Option<String> {
    let (layer, rest) = name.strip_prefix(MTP)?.split_once('.')?;
    let layer = hparams.derived.trunk_layers?.checked_add(layer.parse().ok()?)?;
    Some(format!("model.layers.{layer}.{rest}"))
}

fn export_name(hparams: &Hparams, _: Class, name: &str) -> Option<String> {
    let (layer, rest) = name.strip_prefix("model.layers.")?.split_once('.')?;
    let layer = layer.parse::<u64>().ok()?.checked_sub(hparams.derived.trunk_layers?)?;
    // The norm before its feed-forward part has its own name.
    let rest = rest.replace("post_attention_layernorm", "pre_mlp_layernorm");
    Some(format!("{MTP}{layer}.{rest}"))
}

fn is_trunk(hparams: &Hparams, bid: u64) -> bool {
    hparams.derived.trunk_layers.is_none_or(|trunk| bid < trunk)
}

/// True if the feed-forward part of a layer is a mixture; the Hub's files state 0 or 1, transformers' a word.
fn is_mixture(hparams: &Hparams, bid: u64) -> bool {
    let of = |key| hparams.get(key).and_then(|list| list.get(usize::try_from(bid).ok()?));
    match (of("moe_layer_freq"), of("mlp_layer_types")) {
        (Some(flag), _) => *flag != 0,
        (None, Some(kind)) => kind == "sparse",
        (None, None) => bid > 0,
    }
}

/// Sliding layers, including MTP layers.
fn sliding(hparams: &Hparams) -> Result<Vec<bool>, ArchError> {
    let pattern = hparams.get("hybrid_layer_pattern").and_then(Json::as_array);
    let pattern = pattern.map(|pattern| pattern.iter().map(|flag| *flag == 1).collect());
    let mut slides: Vec<bool> =
        pattern.or_else(|| hparams.sliding_layers()).ok_or_else(|| missing("hybrid_layer_pattern"))?;
    let n_layers = hparams.n_layers()?;
    let trunk = hparams.derived.trunk_layers.unwrap_or(n_layers);
    // The pattern lists the trunk only.
    slides.extend(std::iter::repeat_n(true, n_layers.saturating_sub(trunk) as usize));
    Ok(slides)
}

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    // llama.cpp has one length and number of heads for both kinds of layers.
    for (window_heads, of_all) in [
        ("swa_head_dim", "head_dim"),
        ("swa_num_attention_heads", "num_attention_heads"),
        ("swa_v_head_dim", "v_head_dim"),
    ] {
        if let Some(value) = hparams.get(window_heads).filter(|value| Some(*value) != hparams.get(of_all)) {
            return Err(bad(window_heads, value, "that of full attention"));
        }
    }
    text_keys(hparams, keys)?;
    let heads = hparams.need_u64(&["num_key_value_heads"])?;
    // transformers builds twice as many in layers with a window, and has no key for it.
    let window_heads = hparams.get_u64("swa_num_key_value_heads")?.unwrap_or(heads.saturating_mul(2));
    let slides = sliding(hparams)?;
    let count = |slides: &bool| {
        let heads = if *slides { window_heads } else { heads };
        to_i32("num_key_value_heads", &heads.into())
    };
    let counts = slides.iter().map(count).collect::<Result<Vec<i32>, _>>()?;
    keys.set_prefixed("attention.head_count_kv", Value::Array(Array::I32(counts)));
    keys.needed("attention.sliding_window", hparams, &["sliding_window"])?;
    let flags = slides.iter().map(|slides| i32::from(*slides)).collect();
    keys.set_prefixed("attention.sliding_window_pattern", Value::Array(Array::I32(flags)));
    keys.needed("attention.value_length", hparams, &["v_head_dim"])?;
    keys.needed("expert_count", hparams, &["n_routed_experts"])?;
    keys.needed("expert_feed_forward_length", hparams, &["moe_intermediate_size"])?;
    // A part of a head may rotate; the rest passes as it is.
    keys.set_derived("rope.dimension_count", "head_dim", hparams.rotated(hparams.head_dim()?, None)?)?;
    let epsilon = hparams.get_f64("layernorm_epsilon")?.or(hparams.get_f64("rms_norm_eps")?).unwrap_or(1e-5);
    keys.derived_from("attention.layer_norm_rms_epsilon", &["layernorm_epsilon"]);
    keys.set_prefixed("attention.layer_norm_rms_epsilon", Value::F32(epsilon as f32));
    keys.number("attention.value_scale", hparams, &["attention_value_scale"])?;
    // Pattern and trunk need not agree in length: the lesser of both keeps the difference from going below 0.
    let predicted = slides.len() as u64 - hparams.derived.trunk_layers.unwrap_or(0).min(slides.len() as u64);
    match hparams.derived.trunk_layers {
        Some(_) if predicted > 0 => keys.set_derived("nextn_predict_layers", PREDICTED, predicted),
        _ => Ok(()),
    }
}

/// Counts by kind of layer, and which layers are of which kind, in the words of the Hub's files.
fn from_file(file: &FileKeys<'_>, config: &mut Map<String, Json>) {
    let flags = |flags: &[bool]| flags.iter().map(|flag| u64::from(*flag)).collect::<Json>();
    let slides = file.flags("attention.sliding_window_pattern").unwrap_or_default();
    config.insert("model_type".into(), "mimo_v2_flash".into());
    config.insert("hybrid_layer_pattern".into(), flags(&slides));
    config.insert("moe_layer_freq".into(), flags(&file.layers_with("ffn_gate_inp.weight")));
    let heads = |windows| file.count_where("attention.head_count_kv", &slides, windows);
    set(config, "num_key_value_heads", heads(false).or(heads(true)));
    set(config, "swa_num_key_value_heads", heads(true));
    let sinks = file.layers_with("attn_sinks.weight");
    let any = |windows| sinks.iter().zip(&slides).any(|(sink, slides)| *sink && *slides == windows);
    config.insert("add_swa_attention_sink_bias".into(), any(true).into());
    config.insert("add_full_attention_sink_bias".into(), any(false).into());
    set(config, "v_head_dim", file.count("attention.value_length"));
    set(config, "n_routed_experts", file.count("expert_count"));
    set(config, "moe_intermediate_size", file.count("expert_feed_forward_length"));
    set(config, PREDICTED, file.count("nextn_predict_layers"));
    let epsilon = config.remove("rms_norm_eps").unwrap_or_default();
    config.insert("layernorm_epsilon".into(), epsilon);
    if let Some(base) = config.remove("rope_local_base_freq") {
        config.insert("swa_rope_theta".into(), base);
    }
}

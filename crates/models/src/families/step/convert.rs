//! Step 3.5 and 3.7 Flash: mixtures of experts with gated attention and windows.
//!
//! Config keys: those of every text model with heads by layer, the window and which layers have it, experts and their
//! weights, limits of the activations, layers of multi-token prediction.
//!
//! Transforms: norms are stored as their distance from one. Rotary scaling of type `llama3` becomes the computed tensor
//! `rope_freqs`, with ones where full attention is not rotated. Layers of the prediction follow the others, where the
//! checkpoint has them.
//!
//! Source: `Step35Model` in `conversion/step3.py`. It needs keys that transformers 5.23 renames, so files are read as they
//! stand.

use crate::families::glm::convert::glm4moe::{self, PREDICTED};
use crate::prelude::*;
use gguf_layout::rope_llama3::rope_llama3;

pub const STEP35: Arch = Arch {
    name: "step35",
    classes: &[Class::new("Step3p5ForCausalLM"), Class::wrapper("Step3p7ForConditionalGeneration")],
    example: "stepfun-ai/Step-3.5-Flash",
    raw_config: true,
    tensors: &[
        rules::NORM1P_ENDS,
        LAYERS,
        rules::ATTENTION,
        &rules::gated_mlp(Need::If(|hparams, bid| !is_mixture(hparams, bid))),
        EXPERTS,
        PREDICTION,
    ],
    keys,
    computed,
    rename: |_, name| {
        // The prediction's output lies deeper than its other parts.
        name.contains(".transformer.shared_head.")
            .then(|| name.replace(".transformer.", ".").replace("shared_head.output", "shared_head.head"))
    },
    export_name: |_, _, name| {
        name.contains(".shared_head.").then(|| {
            name.replace(".shared_head.", ".transformer.shared_head.")
                .replace("shared_head.head", "shared_head.output")
        })
    },
    prepare,
    from_file,
    harmless: &["use_head_wise_attn_gate", "use_moe_router_bias"],
    ..DECODER
};

const LAYERS: &[TensorRule] = &[
    // w = w + 1, as the model computes x * (1 + weight) and llama.cpp x * weight.
    TensorRule::norm1p(&["model.layers.{bid}.input_layernorm"], "blk.{bid}.attn_norm"),
    TensorRule::norm1p(&["model.layers.{bid}.post_attention_layernorm"], "blk.{bid}.ffn_norm"),
    TensorRule::norm1p(&["model.layers.{bid}.self_attn.q_norm"], "blk.{bid}.attn_q_norm"),
    TensorRule::norm1p(&["model.layers.{bid}.self_attn.k_norm"], "blk.{bid}.attn_k_norm"),
    TensorRule::copy(&["model.layers.{bid}.self_attn.g_proj"], "blk.{bid}.attn_gate").need(Need::Optional),
];

const IS_MIXTURE: Need = Need::If(is_mixture);

const EXPERTS: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.moe.gate"], "blk.{bid}.ffn_gate_inp").need(IS_MIXTURE),
    // The name has no ending in the checkpoint; in the file it is a bias.
    TensorRule::copy(&["model.layers.{bid}.moe.router_bias"], "blk.{bid}.exp_probs_b")
        .bare(".bias")
        .need(Need::Optional),
    // Experts are one tensor in the checkpoint already, (experts, rows, columns).
    TensorRule::copy(&["model.layers.{bid}.moe.gate_proj"], "blk.{bid}.ffn_gate_exps").need(IS_MIXTURE),
    TensorRule::copy(&["model.layers.{bid}.moe.up_proj"], "blk.{bid}.ffn_up_exps").need(IS_MIXTURE),
    TensorRule::copy(&["model.layers.{bid}.moe.down_proj"], "blk.{bid}.ffn_down_exps").need(IS_MIXTURE),
    TensorRule::copy(&["model.layers.{bid}.share_expert.gate_proj"], "blk.{bid}.ffn_gate_shexp")
        .need(IS_MIXTURE),
    TensorRule::copy(&["model.layers.{bid}.share_expert.up_proj"], "blk.{bid}.ffn_up_shexp").need(IS_MIXTURE),
    TensorRule::copy(&["model.layers.{bid}.share_expert.down_proj"], "blk.{bid}.ffn_down_shexp")
        .need(IS_MIXTURE),
];

const PREDICTION: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.eh_proj"], "blk.{bid}.nextn.eh_proj").need(Need::Optional),
    TensorRule::norm1p(&["model.layers.{bid}.enorm"], "blk.{bid}.nextn.enorm").need(Need::Optional),
    TensorRule::norm1p(&["model.layers.{bid}.hnorm"], "blk.{bid}.nextn.hnorm").need(Need::Optional),
    TensorRule::norm1p(&["model.layers.{bid}.shared_head.norm"], "blk.{bid}.nextn.shared_head_norm")
        .need(Need::Optional),
    TensorRule::copy(&["model.layers.{bid}.shared_head.head"], "blk.{bid}.nextn.shared_head_head")
        .need(Need::Optional),
];

/// RoPE bases may be listed by layer: the first layer has full attention, the second a sliding window.
fn prepare(hparams: Hparams, tensors: &[SourceTensor]) -> Result<Hparams, ArchError> {
    let mut hparams = glm4moe::count_predicted(hparams, tensors)?;
    if let Some(Json::Array(bases)) = hparams.get("rope_theta").cloned() {
        let [full, slides, ..] = &bases[..] else {
            return Err(bad("rope_theta", &bases.into(), "two numbers at least"));
        };
        hparams = hparams
            .with("rope_theta", full.clone())
            .with_rope("rope_theta", full.clone())
            // As configs with parameters by kind of layer have it.
            .with_rope("sliding_attention", json!({ "rope_theta": slides }));
    }
    Ok(hparams)
}

/// True if the feed-forward part of a layer is a listed mixture.
fn is_mixture(hparams: &Hparams, bid: u64) -> bool {
    mixtures(hparams).contains(&bid)
}

fn mixtures(hparams: &Hparams) -> Vec<u64> {
    // Numbers in one text, with commas between: "3,4,5".
    let listed = hparams.get("moe_layers_enum").and_then(Json::as_str).unwrap_or_default();
    listed.split(',').filter_map(|layer| layer.trim().parse().ok()).collect()
}

/// Sliding layers; unlisted layers have full attention.
fn sliding(hparams: &Hparams) -> Result<Vec<bool>, ArchError> {
    let n_layers = hparams.n_layers()?;
    if n_layers > 10_000 {
        return Err(bad("num_hidden_layers", &n_layers.into(), "at most 10000"));
    }
    let mut slides = hparams.sliding_layers().unwrap_or_default();
    // Longer lists are cut, as only as many layers are written.
    slides.resize(n_layers as usize, false);
    Ok(slides)
}

/// A key of numbers by layer, with 0 for those that the config leaves out.
fn limits(
    hparams: &Hparams,
    keys: &mut Keys,
    key: &str,
    name: &str,
    n_layers: usize,
) -> Result<(), ArchError> {
    keys.derived_from(key, &[name]);
    let Some(Json::Array(listed)) = hparams.get(name) else { return Ok(()) };
    let number = |value: &Json| if value.is_null() { Ok(0.0) } else { to_f32(name, value) };
    let mut numbers = listed.iter().map(number).collect::<Result<Vec<f32>, _>>()?;
    numbers.resize(n_layers, 0.0);
    keys.set_prefixed(key, Value::Array(Array::F32(numbers)));
    Ok(())
}

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    text_keys(hparams, keys)?;
    let slides = sliding(hparams)?;
    // Whole heads in sliding layers, half heads in the others: llama.cpp has this built in.
    if let Some(Json::Array(shares)) = hparams.get("partial_rotary_factors") {
        let fits = |(share, slides): (&Json, &bool)| share.as_f64() == Some(if *slides { 1.0 } else { 0.5 });
        if !shares.iter().zip(&slides).all(fits) {
            let found = Json::from(shares.clone());
            return Err(bad("partial_rotary_factors", &found, "1 where `layer_types` slides, else 0.5"));
        }
    }
    let other = hparams.get("attention_other_setting");
    for (name, key) in
        [("num_attention_heads", "attention.head_count"), ("num_attention_groups", "attention.head_count_kv")]
    {
        let heads = hparams.need_u64(&[name])?;
        // Sliding layers may have other numbers of heads, in a separate part.
        let window_heads = other.and_then(|other| other.get(name)).and_then(Json::as_u64).unwrap_or(heads);
        let count = |slides: &bool| to_i32(name, &(if *slides { window_heads } else { heads }).into());
        let counts = slides.iter().map(count).collect::<Result<Vec<i32>, _>>()?;
        keys.set_prefixed(key, Value::Array(Array::I32(counts)));
    }
    keys.needed("attention.sliding_window", hparams, &["sliding_window"])?;
    let n_layers = slides.len();
    keys.set_prefixed("attention.sliding_window_pattern", Value::Array(Array::Bool(slides)));
    keys.needed("attention.value_length", hparams, &["head_dim"])?;
    keys.needed("expert_count", hparams, &["moe_num_experts"])?;
    keys.needed("expert_used_count", hparams, &["moe_top_k"])?;
    keys.needed("expert_feed_forward_length", hparams, &["moe_intermediate_size"])?;
    keys.needed("expert_shared_feed_forward_length", hparams, &["share_expert_dim"])?;
    keys.number("expert_weights_scale", hparams, &["moe_router_scaling_factor"])?;
    if hparams.get("norm_expert_weight").is_some() {
        keys.flag("expert_weights_norm", hparams, "norm_expert_weight");
    }
    // The lowest layer that is listed: as many dense ones come before it.
    keys.set_derived("leading_dense_block_count", "", mixtures(hparams).into_iter().min().unwrap_or(0))?;
    keys.set_derived(
        "moe_every_n_layers",
        "moe_every_n_layer",
        hparams.get_u64("moe_every_n_layer")?.unwrap_or(1),
    )?;
    let epsilon = hparams.get_f64("rms_norm_eps")?.unwrap_or(1e-5);
    keys.set_prefixed("attention.layer_norm_rms_epsilon", Value::F32(epsilon as f32));
    limits(hparams, keys, "swiglu_clamp_exp", "swiglu_limits", n_layers)?;
    limits(hparams, keys, "swiglu_clamp_shexp", "swiglu_limits_shared", n_layers)?;
    match hparams.get_u64(PREDICTED)?.filter(|count| *count > 0) {
        Some(predicted) => keys.set_derived("nextn_predict_layers", PREDICTED, predicted),
        None => Ok(()),
    }
}

/// Divisors of RoPE frequencies: for the half of a head that full attention rotates, then ones, so that
/// sliding layers do not change.
fn computed(hparams: &Hparams) -> Result<Vec<Computed>, ArchError> {
    let dim = hparams.head_dim()?;
    // dim / 2 rotated dimensions are dim / 4 pairs; complete heads of layers with a window have dim / 2 pairs.
    let Some(mut factors) = rope_llama3(hparams.rope(), || Ok(dim / 2))? else { return Ok(Vec::new()) };
    factors.resize((dim / 2).min(1 << 16) as usize, 1.0);
    Ok(vec![("rope_freqs.weight", factors)])
}

/// Counts by kind of layer, and which layers are of which kind.
fn from_file(file: &FileKeys<'_>, config: &mut Map<String, Json>) {
    let mut slides = file.flags("attention.sliding_window_pattern").unwrap_or_default();
    let mut other = json!({"attention_type": "sliding_attention"});
    for (key, name) in
        [("attention.head_count", "num_attention_heads"), ("attention.head_count_kv", "num_attention_groups")]
    {
        set(config, name, file.count_where(key, &slides, false));
        if let Some(count) = file.count_where(key, &slides, true) {
            other[name] = count.into();
        }
    }
    config.remove("num_key_value_heads");
    let normed = file.flag("expert_weights_norm");
    config.extend(normed.map(|normed| ("norm_expert_weight".to_owned(), normed.into())));
    config.insert("attention_other_setting".into(), other);
    let mixtures = file.layers_with("ffn_gate_inp.weight").into_iter().enumerate();
    let mixtures: Vec<String> = mixtures.filter(|(_, is)| *is).map(|(layer, _)| layer.to_string()).collect();
    config.insert("moe_layers_enum".into(), mixtures.join(",").into());
    for (name, key) in [("swiglu_limits", "swiglu_clamp_exp"), ("swiglu_limits_shared", "swiglu_clamp_shexp")]
    {
        config.extend(file.decimals(key).map(|limits| (name.to_owned(), limits)));
    }
    for (name, key) in [
        ("moe_num_experts", "expert_count"),
        ("moe_top_k", "expert_used_count"),
        ("moe_intermediate_size", "expert_feed_forward_length"),
        ("share_expert_dim", "expert_shared_feed_forward_length"),
        (PREDICTED, "nextn_predict_layers"),
    ] {
        set(config, name, file.count(key));
    }
    // The lists speak of the prediction too, whose key is that of its layer.
    if let Some(Value::Array(Array::Bool(all))) = file.value("attention.sliding_window_pattern") {
        slides.clone_from(all);
    }
    config.insert("layer_types".into(), kinds(&slides, ["sliding_attention", "full_attention"]));
    // A base for each layer: `prepare` finds those of both kinds by the first two.
    if let (Some(local), [false, true, ..]) = (config.get("rope_local_base_freq").cloned(), &slides[..]) {
        let full = config.get("rope_theta").cloned().unwrap_or_default();
        let bases = slides.iter().map(|slides| if *slides { local.clone() } else { full.clone() }).collect();
        config.insert("rope_theta".into(), bases);
        config.remove("rope_local_base_freq");
    }
}

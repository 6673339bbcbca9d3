//! dots 3 note, the text part: latent attention of two geometries, one in a window, gated by head.
//!
//! Config keys: those of DeepSeek 2, where heads are counted for each layer; lengths, rank and heads of the layers with a
//! window (`swa_...`); the indexer of the others.
//!
//! Transforms: those of DeepSeek 2, by the geometry of the layer. Norms of the compressed vectors take over the factor that
//! transformers multiplies their output with. The embedding of the prediction goes into its layer.
//!
//! Source: `Dots3NoteModel` in `conversion/dots3.py`. Its config class of transformers 5.23 renames what the reference
//! reads, so a config is read as it stands.

use crate::families::deepseek::convert::deepseek32;
use crate::families::glm::convert::glm4moe;
use crate::parts::latent::{self, LATENT};
use crate::prelude::*;

pub const DOTS3NOTE: Arch = Arch {
    name: "dots3note",
    classes: &[
        Class::new("Dots3NoteForCausalLM"),
        Class::new("Dots3NoteForConditionalGeneration"),
        Class::new("Dots3NoteTextForCausalLM"),
    ],
    example: "dots-studio/dots3-note-prev",
    configs: &[],
    raw_config: true,
    tensors: &[
        rules::DECODER_ENDS,
        rules::PRE_NORMS,
        ATTENTION,
        WINDOWED,
        GATES,
        &deepseek32::indexer(|hparams, bid| !is_windowed(hparams, bid)),
        &rules::gated_mlp(Need::If(|hparams, bid| !latent::is_mixture(hparams, bid))),
        &rules::qwen_experts(Need::If(latent::is_mixture)),
        &rules::shared_experts(Need::If(latent::has_shared)),
        latent::CORRECTION,
        glm4moe::PREDICTION,
    ],
    keys,
    // Stated per layer.
    harmless: &["use_sliding_window", "hidden_act=silu"],
    drops: |hparams, name| {
        let is_tower = ["vision_encoder.", "audio_encoder."].iter().any(|start| name.starts_with(start));
        is_tower
            .then_some("part of an image, sound or speech model")
            .or_else(|| latent::drop_tied(hparams, name))
    },
    rename: |hparams, name| {
        // Layers count from 0, so the number of layers of the trunk is the place of the predicting one.
        let layer = hparams.derived.trunk_layers?;
        (name == EMBEDDING).then(|| format!("model.layers.{layer}.embed_tokens.weight"))
    },
    prepare,
    prediction: Some(Predicted {
        keys: &[],
        is_part: |hparams, name| {
            name.starts_with("model.mtp.") || (glm4moe::PREDICTED_LAYERS.is_part)(hparams, name)
        },
    }),
    vocab: ROUTE,
    export_name: |hparams, _, name| {
        let layer = hparams.derived.trunk_layers?;
        (name == format!("model.layers.{layer}.embed_tokens.weight")).then(|| EMBEDDING.to_owned())
    },
    from_file,
    ..LATENT
};

const ROUTE: Route = Route::new("dots3", |writer| {
    writer.gpt2(&BpeStyle { by_text: &[("eot", "<|endofassistant|>")], ..BpeStyle::GPT2 })
});

/// The embedding of the prediction, which shows that there is one.
const EMBEDDING: &str = "model.mtp.embed_tokens.weight";

/// Latent attention of full layers.
const ATTENTION: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.self_attn.q_a_proj"], "blk.{bid}.attn_q_a"),
    TensorRule::copy(&["model.layers.{bid}.self_attn.q_a_layernorm"], "blk.{bid}.attn_q_a_norm")
        // One rank of queries for both geometries, as `prepare` makes sure.
        .element_of(|hparams, _, _| rescaled(hparams, "q_lora_rank")),
    TensorRule::copy(&["model.layers.{bid}.self_attn.q_b_proj"], "blk.{bid}.attn_q_b"),
    TensorRule::copy(&["model.layers.{bid}.self_attn.kv_a_proj_with_mqa"], "blk.{bid}.attn_kv_a_mqa"),
    TensorRule::copy(&["model.layers.{bid}.self_attn.kv_a_layernorm"], "blk.{bid}.attn_kv_a_norm")
        .element_of(|hparams, bid, _| {
            rescaled(hparams, if is_windowed(hparams, bid) { "swa_kv_lora_rank" } else { "kv_lora_rank" })
        }),
    // Layers with a window have their rules for `kv_b_proj` in `WINDOWED`.
    TensorRule::transposed(
        &["model.layers.{bid}.self_attn.kv_b_proj"],
        "blk.{bid}.attn_k_b",
        latent::head_keys,
    )
    .in_layers(|hparams, bid| !is_windowed(hparams, bid)),
    TensorRule::part(&["model.layers.{bid}.self_attn.kv_b_proj"], "blk.{bid}.attn_v_b", latent::head_values)
        .shape(latent::BY_HEAD)
        .in_layers(|hparams, bid| !is_windowed(hparams, bid)),
    TensorRule::copy(&["model.layers.{bid}.self_attn.o_proj"], "blk.{bid}.attn_output"),
];

/// Layers with a sliding window have other key and value lengths.
const WINDOWED: &[TensorRule] = &[
    TensorRule::transposed(
        &["model.layers.{bid}.self_attn.kv_b_proj"],
        "blk.{bid}.attn_k_b",
        |hparams, shape| latent::head_keys(&windowed(hparams)?, shape),
    )
    .in_layers(is_windowed),
    TensorRule::part(&["model.layers.{bid}.self_attn.kv_b_proj"], "blk.{bid}.attn_v_b", |hparams, shape| {
        latent::head_values(&windowed(hparams)?, shape)
    })
    // (heads * values, rank) becomes (heads, values, rank), by the lengths of layers with a window.
    .shape(Reshape {
        forward: |hparams, dims| (latent::BY_HEAD.forward)(&windowed(hparams)?, dims),
        inverse: rules::flat_rows,
    })
    .in_layers(is_windowed),
];

/// A gate for each head, and the norm of the rotated part of the keys.
const GATES: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.self_attn.g_proj"], "blk.{bid}.attn_gate"),
    TensorRule::copy(&["model.layers.{bid}.self_attn.k_rope_only_layernorm"], "blk.{bid}.attn_k_norm"),
];

/// True if the attention of a layer has a sliding window; the MTP layer has one.
fn is_windowed(hparams: &Hparams, bid: u64) -> bool {
    let predicted = hparams.derived.trunk_layers.is_some_and(|trunk| bid >= trunk);
    let kind = hparams.get("layer_types").and_then(|types| types.get(usize::try_from(bid).ok()?));
    predicted || kind.is_some_and(|kind| kind == "sliding_attention")
}

/// The hyperparameters with the lengths of a head in layers with a window.
fn windowed(hparams: &Hparams) -> Result<Hparams, ArchError> {
    let keys = hparams.need_u64(&["swa_qk_nope_head_dim"])?;
    let values = hparams.need_u64(&["swa_v_head_dim"])?;
    Ok(hparams.with("qk_nope_head_dim", keys.into()).with("v_head_dim", values.into()))
}

/// The norm of a compressed vector, times sqrt(width / rank) if the model multiplies its output with that.
fn rescaled(hparams: &Hparams, rank: &'static str) -> Result<ElementMap, ArchError> {
    if !hparams.is_true("apply_mla_qkv_lora_rescale") {
        return Ok(ElementMap::Identity);
    }
    let width = hparams.need_u64(&["hidden_size"])? as f64;
    let rank = hparams.need_u64(&[rank])?.max(1) as f64;
    // s * (norm(x) * w) = norm(x) * (s w): the factor moves into the weight.
    Ok(ElementMap::Scale([(width / rank).sqrt() as f32, 1.0]))
}

/// Counts the layer of the prediction, which no key of the config announces; refuses what llama.cpp has no way for.
fn prepare(hparams: Hparams, tensors: &[SourceTensor]) -> Result<Hparams, ArchError> {
    let n_layers = hparams.n_layers()?;
    let types = hparams.get("layer_types").ok_or_else(|| missing("layer_types"))?;
    if types.as_array().is_none_or(|types| (types.len() as u64) < n_layers) {
        return Err(bad("layer_types", types, "a type for each layer"));
    }
    let expected: [(&str, Json, &'static str); 9] = [
        ("use_dsa", true.into(), "true"),
        ("k_rope_only_layernorm", true.into(), "true"),
        ("normalization", "RMSNorm".into(), "RMSNorm"),
        ("final_norm", "RMSNorm".into(), "RMSNorm"),
        ("topk_method", "noaux_tc".into(), "noaux_tc"),
        ("attention_gate_type", "headwise".into(), "headwise"),
        ("swa_attention_gate_type", "headwise".into(), "headwise"),
        ("use_dynamic_rsf", false.into(), "false"),
        ("moe_gating_fp32", false.into(), "false"),
    ];
    for (key, value, name) in expected {
        if let Some(found) = hparams.get(key).filter(|found| **found != value) {
            return Err(bad(key, found, name));
        }
    }
    // The keys have one rotated length and one rank of queries for all layers.
    for (windowed, full) in [("swa_qk_rope_head_dim", "qk_rope_head_dim"), ("swa_q_lora_rank", "q_lora_rank")]
    {
        let found = hparams.get(windowed).ok_or_else(|| missing(windowed))?;
        if hparams.get(full) != Some(found) {
            return Err(bad(windowed, found, "the same as in layers without a window"));
        }
    }
    // In an exported file the names are those of the table.
    let in_table = format!("model.layers.{n_layers}.embed_tokens.weight");
    let has_prediction = tensors.iter().any(|tensor| {
        let name = tensor.name.replacen("language_model.", "", 1);
        name == EMBEDDING || name == in_table
    });
    if !has_prediction {
        return Ok(hparams);
    }
    let mut hparams = hparams.with("num_hidden_layers", n_layers.saturating_add(1).into());
    hparams.derived.trunk_layers = Some(n_layers);
    Ok(hparams)
}

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    let n_layers = hparams.n_layers()?;
    if n_layers > 10_000 {
        return Err(bad("num_hidden_layers", &n_layers.into(), "at most 10000"));
    }
    let heads = (0..n_layers).map(|bid| {
        let name = if is_windowed(hparams, bid) { "swa_num_attention_heads" } else { "num_attention_heads" };
        hparams.need_u64(&[name])
    });
    let heads = heads.collect::<Result<Vec<u64>, _>>()?;
    // `head_dim` is the length of no head here.
    latent::keys(&hparams.without("head_dim").with("num_attention_heads", heads.into()), keys)?;
    let rank = hparams.need_u64(&["swa_kv_lora_rank"])?;
    let rotated = hparams.need_u64(&["swa_qk_rope_head_dim"])?;
    let plain = hparams.need_u64(&["swa_qk_nope_head_dim"])?;
    keys.needed("attention.sliding_window", hparams, &["sliding_window_size", "sliding_window"])?;
    let trunk = hparams.derived.trunk_layers.unwrap_or(n_layers);
    let windows: Vec<bool> = (0..trunk).map(|bid| is_windowed(hparams, bid)).collect();
    // Only layers without a window have an indexer.
    let without = windows.iter().map(|windowed| !windowed).collect();
    keys.set_prefixed("attention.sliding_window_pattern", Value::Array(Array::Bool(windows)));
    keys.set_derived("attention.kv_lora_rank_swa", "swa_kv_lora_rank", rank)?;
    // Absorbed: keys are rank + rotated, values the rank; `..._mla_swa` are the lengths of one head.
    keys.set_derived("attention.key_length_swa", "swa_kv_lora_rank", rank.saturating_add(rotated))?;
    keys.set_derived("attention.value_length_swa", "swa_kv_lora_rank", rank)?;
    keys.set_derived("attention.key_length_mla_swa", "swa_qk_nope_head_dim", plain.saturating_add(rotated))?;
    keys.needed("attention.value_length_mla_swa", hparams, &["swa_v_head_dim"])?;
    if let Some(trunk) = hparams.derived.trunk_layers {
        keys.set_derived("nextn_predict_layers", "", n_layers.saturating_sub(trunk))?;
    }
    deepseek32::indexer_keys(hparams, keys)?;
    keys.set_prefixed("attention.indexer.types", Value::Array(Array::Bool(without)));
    Ok(())
}

/// Heads and lengths of both geometries. Factors of the compressed vectors are in the weights of their norms.
fn from_file(file: &FileKeys<'_>, config: &mut Map<String, Json>) {
    let windows = file.flags("attention.sliding_window_pattern").unwrap_or_default();
    config.insert("layer_types".into(), kinds(&windows, ["sliding_attention", "full_attention"]));
    file.latent_lengths(config);
    let rotated = file.count("rope.dimension_count");
    let keys = file.count("attention.key_length_mla_swa");
    for (name, count) in [
        ("num_attention_heads", file.count_where("attention.head_count", &windows, false)),
        ("swa_num_attention_heads", file.count_where("attention.head_count", &windows, true)),
        ("swa_q_lora_rank", file.count("attention.q_lora_rank")),
        ("swa_kv_lora_rank", file.count("attention.kv_lora_rank_swa")),
        ("swa_qk_rope_head_dim", rotated),
        ("swa_qk_nope_head_dim", keys.zip(rotated).and_then(|(keys, rotated)| keys.checked_sub(rotated))),
        ("swa_v_head_dim", file.count("attention.value_length_mla_swa")),
        ("n_routed_experts", file.count("expert_count")),
        ("n_shared_experts", file.count("expert_shared_count")),
        ("first_k_dense_replace", file.count("leading_dense_block_count")),
        ("moe_intermediate_size", file.count("expert_feed_forward_length")),
        ("sliding_window_size", file.count("attention.sliding_window")),
    ] {
        set(config, name, count);
    }
    let heads = config.get("num_attention_heads").cloned().unwrap_or_default();
    config.insert("num_key_value_heads".into(), heads);
    for name in ["num_local_experts", "sliding_window", "head_dim"] {
        config.remove(name);
    }
    if let Some(base) = config.remove("rope_local_base_freq") {
        config.insert("swa_rope_theta".into(), base);
    }
    config.insert("model_type".into(), "dots3_note_text".into());
    config.insert("apply_mla_qkv_lora_rescale".into(), false.into());
    config.insert("k_rope_only_layernorm".into(), true.into());
}

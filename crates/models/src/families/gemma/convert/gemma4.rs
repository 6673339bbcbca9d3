//! Gemma 4, the text part: dense, with embeddings for each layer, and with experts in parallel with the dense
//! part.
//!
//! Config keys: those of Gemma 3; head lengths, key heads and rotated parts separately for full and sliding
//! layers; layers that share keys and values of others; widths of the feed-forward part, which is doubled in
//! shared layers.
//!
//! Transforms: norms are stored as they are. Full attention rotates a quarter of each head: the other
//! dimensions get a divisor of 1e30 in the computed tensor `rope_freqs`.
//!
//! Source: `Gemma4Model` in `conversion/gemma.py`.

use crate::families::gemma::convert::gemma3;
use crate::prelude::*;

pub const GEMMA4: Arch = Arch {
    name: "gemma4",
    classes: &[Class::new("Gemma4ForCausalLM"), Class::new("Gemma4ForConditionalGeneration")],
    example: "google/gemma-4-E2B-it",
    configs: &[GEMMA4_TEXT_CONFIG, GEMMA4_CONFIG],
    needs: &["hidden_size", "intermediate_size", "num_hidden_layers"],
    tensors: &[rules::DECODER_ENDS, NORMS, ATTENTION, DENSE, PER_LAYER, EXPERTS],
    keys,
    computed,
    vocab: ROUTE,
    harmless: &["rope_parameters.partial_rotary_factor"],
    from_file,
    ..DECODER
};

/// A llama tokenizer as tokenizer.json, with merges and the model name `gemma4`.
const ROUTE: Route = Route::new("gemma4", |writer| {
    writer.llama_with_merges(
        "gemma4",
        &[
            "<|channel>",
            "<channel|>",
            "<|tool_call>",
            "<tool_call|>",
            "<|tool_response>",
            "<tool_response|>",
            "<|\"|>",
        ],
    )?;
    writer.set(token_keys::ADD_SPACE_PREFIX, false);
    writer.set(token_keys::ADD_BOS, true);
    Ok(())
});

/// Norms around both halves of a layer, and its scale.
pub const NORMS: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.input_layernorm"], "blk.{bid}.attn_norm"),
    TensorRule::copy(&["model.layers.{bid}.post_attention_layernorm"], "blk.{bid}.post_attention_norm"),
    TensorRule::copy(&["model.layers.{bid}.pre_feedforward_layernorm"], "blk.{bid}.ffn_norm"),
    TensorRule::copy(&["model.layers.{bid}.post_feedforward_layernorm"], "blk.{bid}.post_ffw_norm"),
    // The entire layer's output is multiplied by this number.
    TensorRule::copy(&["model.layers.{bid}.layer_scalar"], "blk.{bid}.layer_output_scale").bare(".weight"),
];

/// Attention, whose last layers may lack keys and values.
pub const ATTENTION: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.self_attn.q_proj"], "blk.{bid}.attn_q"),
    TensorRule::copy(&["model.layers.{bid}.self_attn.q_norm"], "blk.{bid}.attn_q_norm"),
    TensorRule::copy(&["model.layers.{bid}.self_attn.o_proj"], "blk.{bid}.attn_output"),
    // The last layers may reuse keys and values of earlier ones; some files contain unused ones all the same.
    TensorRule::copy(&["model.layers.{bid}.self_attn.k_proj"], "blk.{bid}.attn_k").need(HAS_KEYS),
    TensorRule::copy(&["model.layers.{bid}.self_attn.k_norm"], "blk.{bid}.attn_k_norm").need(HAS_KEYS),
    // Full layers of large models use their keys as values.
    TensorRule::copy(&["model.layers.{bid}.self_attn.v_proj"], "blk.{bid}.attn_v").need(HAS_VALUES),
];

/// The dense part.
pub const DENSE: &[TensorRule] = &rules::gated_mlp(Need::Always);

/// A separate embedding for every layer.
const PER_LAYER: &[TensorRule] = &[
    TensorRule::copy(&["model.embed_tokens_per_layer"], "per_layer_token_embd").need(HAS_PER_LAYER),
    TensorRule::copy(&["model.per_layer_model_projection"], "per_layer_model_proj").need(HAS_PER_LAYER),
    TensorRule::copy(&["model.per_layer_projection_norm"], "per_layer_proj_norm").need(HAS_PER_LAYER),
    TensorRule::copy(&["model.layers.{bid}.per_layer_input_gate"], "blk.{bid}.inp_gate").need(HAS_PER_LAYER),
    TensorRule::copy(&["model.layers.{bid}.per_layer_projection"], "blk.{bid}.proj").need(HAS_PER_LAYER),
    TensorRule::copy(&["model.layers.{bid}.post_per_layer_input_norm"], "blk.{bid}.post_norm")
        .need(HAS_PER_LAYER),
];

/// Experts in parallel with the dense part, gate and up in one matrix, which is kept.
const EXPERTS: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.experts.down_proj"], "blk.{bid}.ffn_down_exps")
        .bare(".weight")
        .need(Need::Experts),
    TensorRule::copy(&["model.layers.{bid}.experts.gate_up_proj"], "blk.{bid}.ffn_gate_up_exps")
        .bare(".weight")
        .need(Need::Experts),
    TensorRule::copy(&["model.layers.{bid}.router.proj"], "blk.{bid}.ffn_gate_inp").need(Need::Experts),
    TensorRule::copy(&["model.layers.{bid}.router.scale"], "blk.{bid}.ffn_gate_inp")
        .bare(".scale")
        .need(Need::Experts),
    TensorRule::copy(&["model.layers.{bid}.router.per_expert_scale"], "blk.{bid}.ffn_down_exps")
        .bare(".scale")
        .need(Need::Experts),
    TensorRule::copy(&["model.layers.{bid}.pre_feedforward_layernorm_2"], "blk.{bid}.pre_ffw_norm_2")
        .need(Need::Experts),
    TensorRule::copy(&["model.layers.{bid}.post_feedforward_layernorm_1"], "blk.{bid}.post_ffw_norm_1")
        .need(Need::Experts),
    TensorRule::copy(&["model.layers.{bid}.post_feedforward_layernorm_2"], "blk.{bid}.post_ffw_norm_2")
        .need(Need::Experts),
];

const HAS_KEYS: Need = Need::If(has_keys);
const HAS_VALUES: Need = Need::If(|hparams, bid| {
    has_keys(hparams, bid) && (is_sliding(hparams, bid) || !hparams.is_true("attention_k_eq_v"))
});
const HAS_PER_LAYER: Need =
    Need::If(|hparams, _| hparams.get_u64("hidden_size_per_layer_input").ok().flatten().unwrap_or(0) > 0);

fn has_keys(hparams: &Hparams, bid: u64) -> bool {
    let shared = hparams.get_u64("num_kv_shared_layers").ok().flatten().unwrap_or(0);
    bid < hparams.n_layers().unwrap_or(0).saturating_sub(shared)
}

fn is_sliding(hparams: &Hparams, bid: u64) -> bool {
    let kind = hparams.get("layer_types").and_then(|types| types.get(usize::try_from(bid).ok()?));
    kind.is_some_and(|kind| kind == "sliding_attention")
}

/// A value for full layers only: under a separate name, or among the overrides by layer.
fn full_layer_value(hparams: &Hparams, global: &'static str, name: &str) -> Result<Option<u64>, ArchError> {
    if let Some(count) = hparams.get_u64(global)? {
        return Ok(Some(count));
    }
    let layers = hparams.get("per_layer_config").and_then(Json::as_object);
    let full = layers.into_iter().flatten().find_map(|(layer, overrides)| {
        let is_full = layer.parse().is_ok_and(|bid| !is_sliding(hparams, bid));
        overrides.get(name).filter(|_| is_full)
    });
    let count = |value: &Json| value.as_u64().ok_or_else(|| bad(name, value, "an integer of 0 or more"));
    full.map(count).transpose()
}

fn full_head_dim(hparams: &Hparams) -> Result<u64, ArchError> {
    full_layer_value(hparams, "global_head_dim", "head_dim")?.ok_or_else(|| missing("global_head_dim"))
}

/// Keys of Gemma 3, plus differences between full and sliding layers.
pub fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    gemma3::keys(hparams, keys)?;
    let count = |key| hparams.get_u64(key).map(|count| count.unwrap_or(0));
    let shared = count("num_kv_shared_layers")?;
    keys.set_derived("attention.shared_kv_layers", "num_kv_shared_layers", shared)?;
    let per_layer = count("hidden_size_per_layer_input")?;
    keys.set_derived("embedding_length_per_layer_input", "hidden_size_per_layer_input", per_layer)?;
    let n_layers = hparams.n_layers()?;
    let types = hparams.get("layer_types").ok_or_else(|| missing("layer_types"))?;
    if types.as_array().map(Vec::len) != usize::try_from(n_layers).ok() {
        return Err(bad("layer_types", types, "a type for each layer"));
    }
    let sliding: Vec<bool> = (0..n_layers).map(|bid| is_sliding(hparams, bid)).collect();
    keys.set_prefixed("attention.sliding_window_pattern", Value::Array(Array::Bool(sliding.clone())));
    // The plain keys are those of full layers here.
    let (full, swa) = (full_head_dim(hparams)?, hparams.need_u64(&["head_dim"])?);
    for (key, dim) in [
        ("attention.key_length", full),
        ("attention.value_length", full),
        ("attention.key_length_swa", swa),
        ("attention.value_length_swa", swa),
    ] {
        keys.set_derived(key, "head_dim", dim)?;
    }
    keys.count(
        "expert_feed_forward_length",
        hparams,
        &["expert_intermediate_size", "moe_intermediate_size"],
    )?;
    if hparams.is_true("use_double_wide_mlp") {
        let width = hparams.need_u64(&["intermediate_size"])?;
        let widths =
            (0..n_layers).map(|bid| if has_keys(hparams, bid) { width } else { width.saturating_mul(2) });
        let widths =
            widths.map(|width| to_i32("intermediate_size", &width.into())).collect::<Result<_, _>>()?;
        keys.set_prefixed("feed_forward_length", Value::Array(Array::I32(widths)));
    }
    let heads = full_layer_value(hparams, "num_global_key_value_heads", "num_key_value_heads")?;
    if let (Some(full), Some(swa)) = (heads, hparams.get_u64("num_key_value_heads")?) {
        let heads = sliding
            .iter()
            .map(|sliding| to_i32("num_key_value_heads", &if *sliding { swa } else { full }.into()));
        let heads = heads.collect::<Result<_, _>>()?;
        keys.set_prefixed("attention.head_count_kv", Value::Array(Array::I32(heads)));
    }
    keys.set_derived("rope.dimension_count", "head_dim", full)?;
    let share = hparams.get("rope_parameters").and_then(|rope| rope.get("partial_rotary_factor"));
    let share = share.and_then(Json::as_f64).unwrap_or(1.0);
    keys.set_derived("rope.dimension_count_swa", "head_dim", (swa as f64 * share) as u64)
}

/// Divisors of the rotary frequencies of full layers: 1 for what is rotated, a number so large that nothing turns for
/// what is not.
fn computed(hparams: &Hparams) -> Result<Vec<Computed>, ArchError> {
    let full = hparams.get("rope_parameters").and_then(|rope| rope.get("full_attention"));
    let full = full.ok_or_else(|| missing("rope_parameters.full_attention"))?;
    let kind = full.get("rope_type").cloned().unwrap_or_default();
    if kind != "proportional" {
        return Err(bad("rope_parameters.full_attention.rope_type", &kind, "proportional"));
    }
    let key = "rope_parameters.full_attention.partial_rotary_factor";
    let share = full.get("partial_rotary_factor").and_then(Json::as_f64).ok_or_else(|| missing(key))?;
    let pairs = (full_head_dim(hparams)? / 2).min(1 << 16);
    let rotated = ((full_head_dim(hparams)? as f64 * share / 2.0) as u64).min(pairs);
    let values = (0..pairs).map(|pair| if pair < rotated { 1.0 } else { 1e30 }).collect();
    Ok(vec![("rope_freqs.weight", values)])
}

/// Separate values of full and sliding layers, and values that the tensors show.
pub fn from_file(file: &FileKeys<'_>, config: &mut Map<String, Json>) {
    let slides = file.flags("attention.sliding_window_pattern").unwrap_or_default();
    // Without sliding layers both lengths are of full ones.
    set(config, "head_dim", file.count("attention.key_length_swa"));
    set(config, "global_head_dim", file.count("attention.key_length"));
    set(config, "num_key_value_heads", file.count_where("attention.head_count_kv", &slides, true));
    let full_rope = file.count_where("attention.head_count_kv", &slides, false);
    if file.counts("attention.head_count_kv").is_some() {
        set(config, "num_global_key_value_heads", full_rope);
    }
    // Layers that share keys have feed-forward parts of twice the width, those before them of the width.
    if let Some(widths) = file.counts("feed_forward_length") {
        set(config, "intermediate_size", widths.first().copied());
        config.insert("use_double_wide_mlp".into(), true.into());
    }
    set(config, "num_kv_shared_layers", file.count("attention.shared_kv_layers"));
    set(config, "hidden_size_per_layer_input", file.count("embedding_length_per_layer_input"));
    let per_layer = file.shape("per_layer_token_embd.weight").map(|shape| shape.n_rows());
    set(config, "vocab_size_per_layer_input", per_layer);
    let has_values = file.layers_with("attn_v.weight");
    let keys_are_values = |(layer, has_values): (usize, &bool)| {
        slides.get(layer) == Some(&false) && !has_values && file.layer_has(layer, "attn_k.weight")
    };
    config.insert("attention_k_eq_v".into(), has_values.iter().enumerate().any(keys_are_values).into());
    if file.flag("attention.causal") == Some(false) {
        config.insert("use_bidirectional_attention".into(), "all".into());
    }
    if let Some(used) = config.remove("num_experts_per_tok") {
        config.extend([("enable_moe_block".into(), true.into()), ("top_k_experts".into(), used)]);
    }
    file.rope_by_kind(config);
}

/// `Gemma4TextConfig`.
pub const GEMMA4_TEXT_CONFIG: ConfigClass = ConfigClass::new("gemma4_text").adjusted(text_config);

/// Behavior of `Gemma4TextConfig.__post_init__`.
fn text_config(map: &mut Map<String, Json>) -> Result<(), String> {
    if map.get("use_bidirectional_attention").is_some_and(|kind| kind == "all") {
        map.insert("is_causal".into(), false.into());
    }
    layer_types(map)?;
    if map.get("rope_parameters").is_none_or(Json::is_null) {
        let rope = json!({
            "sliding_attention": {"rope_type": "default", "rope_theta": 10_000.0},
            "full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1_000_000.0}
        });
        map.insert("rope_parameters".into(), rope);
    }
    let head_dim = map.remove("global_head_dim").unwrap_or(512.into());
    let heads = map.remove("num_global_key_value_heads").filter(|heads| !heads.is_null());
    let mut full = json!({"head_dim": head_dim});
    if let Some(heads) = heads.filter(|_| map.get("attention_k_eq_v") == Some(&Json::Bool(true))) {
        full["num_key_value_heads"] = heads;
    }
    override_full_layers(map, &full);
    Ok(())
}

/// Every sixth layer uses full attention, and the last one in any case.
pub fn layer_types(map: &mut Map<String, Json>) -> Result<(), String> {
    adjust::layer_pattern(map, 6)?;
    let types = map.get_mut("layer_types").and_then(Json::as_array_mut);
    if let Some(last) = types.and_then(|types| types.last_mut()) {
        *last = "full_attention".into();
    }
    Ok(())
}

/// Adds overrides for the full-attention layers, unless the config has overrides.
pub fn override_full_layers(map: &mut Map<String, Json>, overrides: &Json) {
    if map.contains_key("per_layer_config") {
        return;
    }
    let types = map.get("layer_types").and_then(Json::as_array).into_iter().flatten();
    let full = types.enumerate().filter(|(_, kind)| *kind == "full_attention");
    let layers: Map<String, Json> = full.map(|(layer, _)| (layer.to_string(), overrides.clone())).collect();
    map.insert("per_layer_config".into(), layers.into());
}

/// `Gemma4Config`: text, images and sound.
const GEMMA4_CONFIG: ConfigClass =
    ConfigClass::new("gemma4").adjusted(|map| adjust::text_config(map, &GEMMA4_TEXT_CONFIG));

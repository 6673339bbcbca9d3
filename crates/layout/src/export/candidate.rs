//! A config that a file may have been made from, based on its keys and tensors.
//!
//! Keys get the names that the config class has for them (`names.rs`). Values that only the tensors show are
//! in [`SHOWN`].

use gguf_container::{Array, Value};
use gguf_tokenizer::keys as token_keys;
use serde_json::{Map, Value as Json, json};

use super::error::ExportError;
use super::layout::ArchFile;
use super::names::NAMES;
use super::rope;
use super::search::json_of;
use crate::FileKeys;
use crate::config::classes::ConfigClass;

/// Names in a config and their values.
type Shown = Vec<(&'static str, Json)>;
/// Reads them off a file.
type Show = fn(&ArchFile<'_>) -> Result<Shown, ExportError>;

/// Config values that a file shows in another way than by a key with this name: for config classes with a
/// field, or for all. The order is that of config.json.
const SHOWN: &[(Option<&str>, Show)] = &[
    // Layers that predict more than the next token are counted among the others.
    (None, |file| {
        let own = file.count("nextn_predict_layers")?.and(own_layers(file)?);
        Ok(own.map(|own| ("num_hidden_layers", own.into())).into_iter().collect())
    }),
    // Deepstack: the number of tower layers that feed the text part; the projector names them.
    (None, |file| {
        let n = file.count("n_deepstack_layers")?.filter(|n| *n <= 64);
        let layers: Option<Vec<u64>> = n.map(|n| (0..n).collect());
        Ok(layers
            .map(|layers| ("vision_config", json!({"deepstack_visual_indexes": layers})))
            .into_iter()
            .collect())
    }),
    // T5: version 1.1 has gates.
    (Some("feed_forward_proj"), |file| {
        let kind = if file.has_tensor(".ffn_gate.weight") { "gated-gelu" } else { "relu" };
        Ok(vec![("feed_forward_proj", kind.into())])
    }),
    (None, |file| {
        let shape = file.shape("token_types.weight");
        Ok(shape.map(|shape| ("type_vocab_size", shape.n_rows().into())).into_iter().collect())
    }),
    // Jamba: every N layers is a mixture, which has a router.
    (Some("expert_layer_period"), |file| {
        let n_layers = file.count("block_count")?.unwrap_or(0);
        let has_router = |layer: &u64| file.shape(&format!("blk.{layer}.ffn_gate_inp.weight")).is_some();
        let mixtures = (0..n_layers.min(file.input.tensors.len() as u64)).filter(has_router);
        Ok(period(mixtures, n_layers, ["expert_layer_offset", "expert_layer_period"]))
    }),
    // Falcon 2 has one norm for both halves of a layer, Falcon 40B two.
    (Some("num_ln_in_parallel_attn"), |file| {
        let norms = if file.has_tensor(".attn_norm_2.weight") { 2 } else { 1 };
        Ok(vec![("num_ln_in_parallel_attn", norms.into())])
    }),
    (Some("attention_bias"), |file| Ok(vec![("attention_bias", file.has_tensor(".attn_q.bias").into())])),
    (Some("use_qkv_bias"), |file| Ok(vec![("use_qkv_bias", file.has_tensor(".attn_q.bias").into())])),
    (Some("mlp_bias"), |file| Ok(vec![("mlp_bias", file.has_tensor(".ffn_up.bias").into())])),
    (Some("use_bias"), |file| Ok(vec![("use_bias", file.has_tensor(".attn_q.bias").into())])),
    (Some("layer_types"), layer_types),
    // Layers with their own indexer.
    (Some("indexer_types"), |file| {
        let flags = file.get("attention.indexer.types").and_then(flags_of);
        let names =
            |flags: Vec<bool>| flags.iter().map(|full| if *full { "full" } else { "shared" }).collect();
        Ok(flags.map(|flags| ("indexer_types", names(flags))).into_iter().collect())
    }),
    // A mixture has a router.
    (Some("mlp_layer_types"), |file| {
        let own = own_layers(file)?.filter(|own| *own <= 10_000);
        let is_mixture = |bid: u64| file.shape(&format!("blk.{bid}.ffn_gate_inp.weight")).is_some();
        let kinds = |own| (0..own).map(|bid| if is_mixture(bid) { "sparse" } else { "dense" }).collect();
        Ok(own.map(|own| ("mlp_layer_types", kinds(own))).into_iter().collect())
    }),
    // Counts for each layer: layers without attention lack them.
    (None, |file| {
        let most = head_counts(file).map(|counts| counts.iter().max().copied().unwrap_or(0));
        Ok(most.map(|most| ("num_key_value_heads", most.into())).into_iter().collect())
    }),
    // Granite 4 and Bamba: the sizes of their state spaces, and which layers attend, in the words of the Hub's files.
    (Some("mamba_n_heads"), |file| {
        let Some(counts) = head_counts(file) else { return Ok(Vec::new()) };
        let kind = |count: &i32| if *count != 0 { "attention" } else { "mamba" };
        let mut shown = vec![("layer_types", counts.iter().map(kind).collect())];
        let inner = state_sizes(
            file,
            &mut shown,
            ["mamba_n_heads", "mamba_n_groups", "mamba_d_state", "mamba_d_conv"],
        )?;
        let width = file.count("embedding_length")?.filter(|width| *width > 0);
        shown.extend(width.map(|width| ("mamba_expand", (inner / width).into())));
        let heads = file.count("ssm.time_step_rank")?.filter(|heads| *heads > 0);
        shown.extend(heads.map(|heads| ("mamba_d_head", (inner / heads).into())));
        Ok(shown)
    }),
    (Some("attn_layer_indices"), |file| {
        let Some(counts) = head_counts(file) else { return Ok(Vec::new()) };
        let attends = (0..counts.len()).filter(|layer| counts[*layer] != 0);
        Ok(vec![("layer_types", Json::Null), ("attn_layer_indices", attends.collect())])
    }),
    // Nemotron-H: the tensors determine the kind of each layer, and the sizes of its state spaces and
    // experts.
    (Some("layers_block_type"), |file| {
        let n_layers = own_layers(file)?.unwrap_or(0);
        let has = |layer: u64, name: &str| file.shape(&format!("blk.{layer}.{name}.weight")).is_some();
        let kind = |layer: u64| match () {
            () if has(layer, "attn_q") => "full_attention",
            () if has(layer, "ffn_gate_inp") => "moe",
            () if has(layer, "ffn_up") => "mlp",
            () => "linear_attention",
        };
        let kinds = (0..n_layers.min(file.input.tensors.len() as u64)).map(kind).collect();
        let lengths = match file.get("feed_forward_length") {
            Some(Value::Array(Array::I32(lengths))) => lengths.iter().max().copied().unwrap_or(0),
            _ => 0,
        };
        let mut shown = vec![("layers_block_type", kinds), ("intermediate_size", lengths.into())];
        let inner =
            state_sizes(file, &mut shown, ["mamba_num_heads", "n_groups", "ssm_state_size", "conv_kernel"])?;
        let heads = file.count("ssm.time_step_rank")?.filter(|heads| *heads > 0);
        shown.extend(heads.map(|heads| ("mamba_head_dim", (inner / heads).into())));
        for (name, key) in [
            ("moe_shared_expert_intermediate_size", "expert_shared_feed_forward_length"),
            ("n_routed_experts", "expert_count"),
            ("n_shared_experts", "expert_shared_count"),
            ("norm_topk_prob", "expert_weights_norm"),
            ("routed_scaling_factor", "expert_weights_scale"),
            ("n_group", "expert_group_count"),
            ("topk_group", "expert_group_used_count"),
            ("moe_latent_size", "moe_latent_size"),
            ("num_nextn_predict_layers", "nextn_predict_layers"),
        ] {
            shown.extend(file.get(key).and_then(json_of).map(|value| (name, value)));
        }
        Ok(shown)
    }),
    // Jamba: every N layers has attention.
    (Some("attn_layer_period"), |file| {
        let Some(counts) = head_counts(file) else { return Ok(Vec::new()) };
        let attends = (0..counts.len() as u64).filter(|layer| counts[*layer as usize] != 0);
        Ok(period(attends, counts.len() as u64, ["attn_layer_offset", "attn_layer_period"]))
    }),
];

/// Layers without those that predict more than the next token, which the key counts too.
fn own_layers(file: &ArchFile<'_>) -> Result<Option<u64>, ExportError> {
    let predicted = file.count("nextn_predict_layers")?.unwrap_or(0);
    Ok(file.count("block_count")?.map(|all| all.saturating_sub(predicted)))
}

/// The sizes of state spaces under these names: heads, groups, state, kernel. The inner size.
fn state_sizes(file: &ArchFile<'_>, shown: &mut Shown, names: [&'static str; 4]) -> Result<u64, ExportError> {
    let keys = ["ssm.time_step_rank", "ssm.group_count", "ssm.state_size", "ssm.conv_kernel"];
    for (name, key) in names.into_iter().zip(keys) {
        shown.extend(file.count(key)?.map(|count| (name, count.into())));
    }
    Ok(file.count("ssm.inner_size")?.unwrap_or(0))
}

/// The first of some layers and the distance to the second; all `n_layers` if there is no second.
fn period(mut layers: impl Iterator<Item = u64>, n_layers: u64, names: [&'static str; 2]) -> Shown {
    let Some(first) = layers.next() else { return Vec::new() };
    let period = layers.next().map_or(n_layers, |second| second - first);
    vec![(names[0], first.into()), (names[1], period.into())]
}

/// Key and value heads of each layer, if the file counts them so.
fn head_counts<'a>(file: &ArchFile<'a>) -> Option<&'a [i32]> {
    match file.get("attention.head_count_kv") {
        Some(Value::Array(Array::I32(counts))) => Some(counts),
        _ => None,
    }
}

/// Keys with a value for each layer, and what a layer is called of which it is true, and of which not.
const LAYER_KINDS: &[(&str, [&str; 2])] = &[
    ("attention.sliding_window_pattern", ["sliding_attention", "full_attention"]),
    ("attention.recurrent_layers", ["linear_attention", "full_attention"]),
    ("attention.head_count_kv", ["full_attention", "conv"]),
];

/// Truth values of all layers: those of the key, or whether its counts are not 0.
fn flags_of(value: &Value) -> Option<Vec<bool>> {
    match value {
        Value::Array(Array::Bool(flags)) => Some(flags.clone()),
        Value::Array(Array::I32(counts)) => Some(counts.iter().map(|count| *count != 0).collect()),
        _ => None,
    }
}

/// Name of each layer's kind, if a key has a value per layer. A config lists only the layers before MTP
/// layers.
fn layer_types(file: &ArchFile<'_>) -> Result<Shown, ExportError> {
    let kinds = LAYER_KINDS.iter().find_map(|(key, kind)| Some((flags_of(file.get(key)?)?, *kind)));
    let Some((mut flags, [if_so, if_not])) = kinds else { return Ok(Vec::new()) };
    // Some patterns are of all layers, some of a part.
    if let Some(n_layers) = own_layers(file)? {
        flags.truncate(usize::try_from(n_layers).unwrap_or(flags.len()));
    }
    // Layers without key heads are convolutions, or Kimi's delta attention, which has three.
    let if_not = if file.has_tensor(".ssm_conv1d_q.weight") { "linear_attention" } else { if_not };
    let names = flags.iter().map(|flag| if *flag { if_so } else { if_not }).collect();
    Ok(vec![("layer_types", names)])
}

/// A config that may be the one.
///
/// # Errors
/// [`ExportError`]: a key of another type, no embedding, rotary scaling that no config states.
pub fn candidate(
    file: &ArchFile<'_>,
    class: &str,
    config_class: Option<&ConfigClass>,
) -> Result<Map<String, Json>, ExportError> {
    let has_field = |name: &str| config_class.is_some_and(|class| class.field(name).is_some());
    let mut config = Map::new();
    config.insert("architectures".into(), json!([class]));
    let model_type = config_class.map_or(file.arch.name, |class| class.model_type);
    config.insert("model_type".into(), model_type.into());
    for (key, names) in NAMES {
        let Some(value) = file.get(key).and_then(json_of) else { continue };
        // Classes rename fields and keep the old names as aliases, so several may be meant.
        let taken: Vec<&&str> = names.iter().filter(|name| has_field(name)).collect();
        for name in if taken.is_empty() { names.iter().take(1).collect() } else { taken } {
            config.insert((*name).to_owned(), value.clone());
        }
    }
    for (_, shown) in SHOWN.iter().filter(|(field, _)| field.is_none_or(has_field)) {
        config.extend(shown(file)?.into_iter().map(|(name, value)| (name.to_owned(), value)));
    }
    let metadata = file.input.metadata;
    for (name, key) in [
        ("bos_token_id", token_keys::BOS_ID),
        ("eos_token_id", token_keys::EOS_ID),
        ("pad_token_id", token_keys::PAD_ID),
    ] {
        config.insert(name.into(), metadata.count(key)?.into());
    }
    if let Some(mask) = metadata.count(token_keys::MASK_ID)?.filter(|_| has_field("mask_token_id")) {
        config.insert("mask_token_id".into(), mask.into());
    }
    config.insert("vocab_size".into(), file.embedding_rows()?.into());
    config.insert("tie_word_embeddings".into(), file.shape("output.weight").is_none().into());
    // `dtype` is read by transformers 5, `torch_dtype` by 4.
    for name in ["dtype", "torch_dtype"] {
        config.insert(name.into(), file.input.dtype.into());
    }
    rotary(file, &mut config)?;
    let keys = FileKeys::new(file.arch.written(), file.input.metadata, &file.input.tensors);
    (file.arch.from_file)(&keys, &mut config);
    Ok(config)
}

/// RoPE keys of the file, and the rotated part of a head.
fn rotary(file: &ArchFile<'_>, config: &mut Map<String, Json>) -> Result<(), ExportError> {
    if file.number("rope.freq_base")?.is_some() || file.input.rope_factors.is_some() {
        rope::write(file, config)?;
    }
    if let Some(theta) = file.number("rope.freq_base_swa")? {
        config.insert("rope_local_base_freq".into(), theta.into());
        // Flat, for classes that put the parameters of both kinds of layers together themselves.
        config.remove("rope_parameters");
    }
    let count = |key: &str| config.get(key).and_then(Json::as_u64);
    let share = count("hidden_size")
        .zip(count("num_attention_heads"))
        .and_then(|(width, heads)| width.checked_div(heads));
    let head = file.count("attention.key_length")?.or(share);
    // Latent attention has a length for what it turns.
    if let (Some(rotated), Some(head)) = (file.count("rope.dimension_count")?, head)
        && rotated < head
        && file.count("attention.kv_lora_rank")?.is_none()
    {
        let part = Json::from(rotated as f64 / head as f64);
        if let Some(Json::Object(parameters)) = config.get_mut("rope_parameters") {
            parameters.insert("partial_rotary_factor".into(), part.clone());
        }
        config.insert("partial_rotary_factor".into(), part);
    }
    Ok(())
}

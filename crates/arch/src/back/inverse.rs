//! The way there, inverted: for every architecture whose table and keys can be read backwards.
//!
//! A config is made of the file's keys by the names that the architecture's config class has for
//! them. Then the way there is gone once more, from that config and the tensors that it would take:
//! only if every key and every tensor of the file comes out of it again is it the way back, and the
//! row maps of that layout, inverted, say where the rows of each tensor lie.

use std::collections::{BTreeMap, HashSet};

use gguf::{Array, Metadata, Value};
use serde_json::{Map, Value as Json, json};
use tensor::Shape;

use super::config::{self, Model};
use super::{BackError, BackPart, BackTensor, GgufInput, Keys};
use crate::config::classes::ConfigClass;
use crate::layout::{Data, ElementMap, Layout, RowMap};
use crate::registry::Arch;
use crate::resolve::Resolved;
use crate::tensors::rules::{self, RowRule, TensorRule};
use crate::{Input, Options, SourceTensor};

/// What keys below the architecture's name are called in configs. Of several names all are taken
/// that the config class has, else the first.
const NAMES: &[(&str, &[&str])] = &[
    ("block_count", &["num_hidden_layers", "n_layer", "num_layers"]),
    ("context_length", &["max_position_embeddings", "n_positions", "seq_length"]),
    ("embedding_length", &["hidden_size", "n_embd", "d_model"]),
    ("feed_forward_length", &["intermediate_size", "n_inner"]),
    ("attention.head_count", &["num_attention_heads", "n_head"]),
    ("attention.head_count_kv", &["num_key_value_heads"]),
    ("attention.key_length", &["head_dim"]),
    ("attention.layer_norm_rms_epsilon", &["rms_norm_eps"]),
    (
        "attention.layer_norm_epsilon",
        &["layer_norm_eps", "layer_norm_epsilon", "norm_epsilon", "norm_eps", "rms_norm_eps"],
    ),
    ("attention.sliding_window", &["sliding_window"]),
    ("attention.clamp_kqv", &["clip_qkv"]),
    ("attention.scale", &["attention_multiplier"]),
    ("attn_logit_softcapping", &["attn_logit_softcapping"]),
    ("final_logit_softcapping", &["final_logit_softcapping"]),
    ("logit_scale", &["logit_scale", "logits_scaling"]),
    ("embedding_scale", &["embedding_multiplier", "scale_emb"]),
    ("residual_scale", &["residual_multiplier"]),
    ("use_parallel_residual", &["use_parallel_residual"]),
    ("vocab_size", &["vocab_size"]),
    ("expert_count", &["num_local_experts", "num_experts", "n_routed_experts"]),
    ("expert_used_count", &["num_experts_per_tok"]),
    ("expert_feed_forward_length", &["moe_intermediate_size"]),
    ("expert_shared_feed_forward_length", &["shared_expert_intermediate_size", "shared_intermediate_size"]),
];

/// Why the table of an architecture cannot be read backwards, if it cannot.
pub fn obstacle(arch: &Arch) -> Option<&'static str> {
    let of_rule = |rule: &TensorRule| match rule.rows {
        RowRule::Columns(_) | RowRule::Turned(_) => Some("its matrices lie transposed in a checkpoint"),
        RowRule::Mxfp4(_) => Some("its experts come as codes and scales apart"),
        RowRule::Fuse(_) => Some("several of its tensors are one in the file"),
        _ if rule.shape.is_some() || rule.bare.is_some() => Some("its tensors change their shapes"),
        _ if rule.element_of.is_some() => Some("its weights are scaled by layer"),
        _ => match rule.element {
            ElementMap::Identity | ElementMap::AddOne => None,
            _ => Some("its weights are changed in a way that cannot be undone exactly"),
        },
    };
    if arch.written.is_some() {
        return Some("it is written under another architecture's name");
    }
    arch.tensors.iter().flat_map(|part| part.iter()).find_map(of_rule)
}

/// The config and the tensors of a checkpoint.
///
/// # Errors
/// [`BackError`]: of all config classes of the architecture, what the first one could not say.
pub fn read(
    keys: &Keys<'_>,
    arch: &'static Arch,
    input: &GgufInput<'_>,
) -> Result<(Model, Vec<BackTensor>), BackError> {
    let classes: Vec<_> = arch.classes.iter().filter(|class| class.prefix.is_empty()).collect();
    let mut first = None;
    for (index, class) in classes.iter().enumerate() {
        // Classes and config classes that are equally many belong together.
        let configs: Vec<Option<&ConfigClass>> = match arch.configs {
            [] => vec![None],
            configs if configs.len() == classes.len() => vec![configs.get(index)],
            configs => configs.iter().map(Some).collect(),
        };
        for config in configs {
            match attempt(keys, arch, class.name, config, input) {
                Ok(found) => return Ok(found),
                Err(error) => first = first.or(Some(error)),
            }
        }
    }
    Err(first.unwrap_or(BackError::NotExpressible { what: format!("architecture `{}`", arch.name) }))
}

fn attempt(
    keys: &Keys<'_>,
    arch: &'static Arch,
    class: &str,
    config_class: Option<&ConfigClass>,
    input: &GgufInput<'_>,
) -> Result<(Model, Vec<BackTensor>), BackError> {
    let config = candidate(keys, arch, class, config_class, input)?;
    let n_layers = keys.need_count(&format!("{}.block_count", arch.name))?;
    let n_experts = keys.count(&format!("{}.expert_count", arch.name))?.unwrap_or(0);
    let sources = sources(arch, n_layers, input)?;
    let checkpoint = Input { config: config.clone(), tensors: sources, ..Input::default() };
    let way_there = Resolved::new(&checkpoint, &Options::default()).map_err(BackError::WayThere)?;
    same_keys(arch, keys.metadata, &way_there.layout.metadata)?;
    let tensors = inverted(&way_there.layout, &checkpoint.tensors, input)?;
    let rows =
        input.tensors.iter().find(|(name, _)| name == arch.embedding).map_or(0, |(_, shape)| shape.n_rows());
    let model = Model { config, n_layers, n_head: 0, n_head_kv: 0, head_dim: 0, n_experts, vocab_size: rows };
    Ok((model, tensors))
}

/// A config that may be the one.
fn candidate(
    keys: &Keys<'_>,
    arch: &Arch,
    class: &str,
    config_class: Option<&ConfigClass>,
    input: &GgufInput<'_>,
) -> Result<Json, BackError> {
    let own = |key: &str| format!("{}.{key}", arch.name);
    let has_field = |name: &str| {
        config_class
            .is_some_and(|class| class.fields.iter().copied().flatten().any(|(field, ..)| *field == name))
    };
    let has_tensor = |end: &str| input.tensors.iter().any(|(name, _)| name.ends_with(end));
    let mut config = Map::new();
    config.insert("architectures".into(), json!([class]));
    let model_type = config_class.map_or(arch.name, |class| class.model_type);
    config.insert("model_type".into(), model_type.into());
    for (key, names) in NAMES {
        let Some(value) = keys.get(&own(key)).and_then(|value| json_of(keys, &own(key), value)) else {
            continue;
        };
        let taken: Vec<&&str> = names.iter().filter(|name| has_field(name)).collect();
        for name in if taken.is_empty() { names.iter().take(1).collect() } else { taken } {
            config.insert((*name).to_owned(), value.clone());
        }
    }
    for (field, end) in [
        ("attention_bias", ".attn_q.bias"),
        ("use_qkv_bias", ".attn_q.bias"),
        ("mlp_bias", ".ffn_up.bias"),
        ("use_bias", ".attn_q.bias"),
    ] {
        if has_field(field) {
            config.insert(field.into(), has_tensor(end).into());
        }
    }
    if let Some(Value::Array(Array::Bool(sliding))) = keys.get(&own("attention.sliding_window_pattern"))
        && has_field("layer_types")
    {
        let name = |sliding: &bool| if *sliding { "sliding_attention" } else { "full_attention" };
        config.insert("layer_types".into(), sliding.iter().map(name).collect());
    }
    for (name, of) in [("bos_token_id", "bos"), ("eos_token_id", "eos"), ("pad_token_id", "padding")] {
        config.insert(name.into(), keys.count(&format!("tokenizer.ggml.{of}_token_id"))?.into());
    }
    let embedding = input.tensors.iter().find(|(name, _)| name == arch.embedding);
    let (_, embedding) =
        embedding.ok_or_else(|| BackError::MissingTensors { names: vec![arch.embedding.into()] })?;
    config.insert("vocab_size".into(), embedding.n_rows().into());
    config.insert("tie_word_embeddings".into(), (!has_tensor("output.weight") || tied(input)).into());
    for name in ["dtype", "torch_dtype"] {
        config.insert(name.into(), input.dtype.into());
    }
    rope(keys, arch, input, &mut config)?;
    Ok(Json::Object(config))
}

/// Whether there is no output of its own.
fn tied(input: &GgufInput<'_>) -> bool {
    !input.tensors.iter().any(|(name, _)| name == "output.weight")
}

/// Rotary keys, where the file has them; which part of a head is rotated.
fn rope(
    keys: &Keys<'_>,
    arch: &Arch,
    input: &GgufInput<'_>,
    config: &mut Map<String, Json>,
) -> Result<(), BackError> {
    let own = |key: &str| format!("{}.{key}", arch.name);
    if keys.number(&own("rope.freq_base"))?.is_some() {
        config::rope(keys, arch, input, config)?;
    }
    if let Some(theta) = keys.number(&own("rope.freq_base_swa"))? {
        config.insert("rope_local_base_freq".into(), theta.into());
        // Flat, for classes that put the parameters of both kinds of layers together themselves.
        config.remove("rope_parameters");
    }
    let count = |key: &str| config.get(key).and_then(Json::as_u64);
    let share = count("hidden_size")
        .zip(count("num_attention_heads"))
        .and_then(|(width, heads)| width.checked_div(heads));
    let head = keys.count(&own("attention.key_length"))?.or(share);
    if let (Some(rotated), Some(head)) = (keys.count(&own("rope.dimension_count"))?, head)
        && rotated < head
    {
        let part = Json::from(rotated as f64 / head as f64);
        if let Some(Json::Object(parameters)) = config.get_mut("rope_parameters") {
            parameters.insert("partial_rotary_factor".into(), part.clone());
        }
        config.insert("partial_rotary_factor".into(), part);
    }
    Ok(())
}

fn json_of(keys: &Keys<'_>, key: &str, value: &Value) -> Option<Json> {
    match value {
        Value::F32(_) | Value::F64(_) => keys.number(key).ok().flatten().map(Json::from),
        Value::Bool(flag) => Some((*flag).into()),
        Value::String(_) => value.as_str().map(Json::from),
        Value::Array(Array::I32(items)) => Some(json!(items)),
        Value::Array(_) => None,
        value => value.as_u64().map(Json::from),
    }
}

/// The tensors that a checkpoint would have: names of the table, rows of parts put together.
fn sources(arch: &Arch, n_layers: u64, input: &GgufInput<'_>) -> Result<Vec<SourceTensor>, BackError> {
    let mut sources: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    let mut unused = Vec::new();
    for (name, shape) in input.tensors.iter().filter(|(name, _)| !is_computed(name)) {
        let place = [".weight", ".bias"].into_iter().find_map(|suffix| {
            let base = name.strip_suffix(suffix)?;
            let rules = arch.tensors.iter().flat_map(|part| part.iter());
            rules.into_iter().find_map(|rule| Some((rule, rules::parse(rule.gguf, base)?.0, suffix)))
        });
        let Some((rule, bid, suffix)) = place.filter(|(_, bid, _)| *bid < n_layers) else {
            unused.push(name.clone());
            continue;
        };
        let spelled = |xid| rules::fill(rule.hf.first().copied().unwrap_or_default(), bid, xid) + suffix;
        let dims = shape.dims();
        match (rule.rows, dims) {
            (RowRule::StackExperts, &[row, rows, n]) => {
                sources.extend((0..n).map(|xid| (spelled(xid), vec![row, rows])));
            }
            (RowRule::Part(_), dims) => {
                let outer = dims.len().saturating_sub(1).min(1);
                match sources.get_mut(&spelled(0)) {
                    Some(have) if have.len() == dims.len() => {
                        have[outer] = have[outer].saturating_add(dims[outer])
                    }
                    _ => drop(sources.insert(spelled(0), dims.to_vec())),
                }
            }
            (_, dims) => drop(sources.insert(spelled(0), dims.to_vec())),
        }
    }
    if !unused.is_empty() {
        return Err(BackError::UnusedTensors { names: unused });
    }
    let source = |(name, dims): (String, Vec<u64>)| match Shape::new(&dims) {
        Ok(shape) => Ok(SourceTensor { name, shape }),
        Err(_) => Err(BackError::NotExpressible { what: format!("tensor `{name}` of shape {dims:?}") }),
    };
    sources.into_iter().map(source).collect()
}

/// Tensors that come of a config and not of a checkpoint.
fn is_computed(name: &str) -> bool {
    matches!(name, "rope_freqs.weight" | "rope_factors_long.weight" | "rope_factors_short.weight")
}

/// Whether the way there gives the same hyperparameters.
fn same_keys(arch: &Arch, have: &Metadata, made: &Metadata) -> Result<(), BackError> {
    let own =
        |(key, _): &&(String, Value)| key.strip_prefix(arch.name).is_some_and(|rest| rest.starts_with('.'));
    let find = |all: &Metadata, key: &str| {
        all.iter().find(|(other, _)| other == key).map(|(_, value)| value.clone())
    };
    let keys = have.iter().filter(own).chain(made.iter().filter(own)).map(|(key, _)| key);
    for key in keys {
        let (have, made) = (find(have, key), find(made, key));
        if have != made {
            let text = |value: Option<Value>| value.map_or("nothing".to_owned(), |value| format!("{value}"));
            let what = format!("metadata key `{key}`, {}, which would be {},", text(have), text(made));
            return Err(BackError::NotExpressible { what });
        }
    }
    Ok(())
}

/// Every tensor of the checkpoint with the places of its rows.
fn inverted(
    layout: &Layout,
    sources: &[SourceTensor],
    input: &GgufInput<'_>,
) -> Result<Vec<BackTensor>, BackError> {
    let made: HashSet<(&str, Shape)> =
        layout.tensors.iter().map(|tensor| (tensor.name.as_str(), tensor.shape)).collect();
    let have: HashSet<(&str, Shape)> =
        input.tensors.iter().map(|(name, shape)| (name.as_str(), *shape)).collect();
    let names = |of: &HashSet<(&str, Shape)>, without: &HashSet<(&str, Shape)>| {
        let mut names: Vec<String> = of.difference(without).map(|(name, _)| (*name).to_owned()).collect();
        names.sort();
        names
    };
    let (extra, absent) = (names(&have, &made), names(&made, &have));
    if !extra.is_empty() {
        return Err(BackError::UnusedTensors { names: extra });
    }
    if !absent.is_empty() {
        return Err(BackError::MissingTensors { names: absent });
    }
    let mut parts: BTreeMap<&str, Vec<BackPart>> = BTreeMap::new();
    for tensor in &layout.tensors {
        let Data::Rows { sources: names, rows, element } = &tensor.data else {
            if matches!(tensor.data, Data::Computed(_)) && tensor.name == "rope_freqs.weight" {
                continue;
            }
            return Err(BackError::NotExpressible { what: format!("tensor `{}`", tensor.name) });
        };
        let n_rows = tensor.row_view().n_rows / (names.len() as u64).max(1);
        for (index, name) in names.iter().enumerate() {
            parts.entry(name.as_str()).or_default().push(BackPart {
                source: tensor.name.clone(),
                first_row: index as u64 * n_rows,
                n_rows,
                rows: *rows,
                element: *element,
            });
        }
    }
    let back = |source: &SourceTensor| {
        let parts = parts.remove(source.name.as_str()).unwrap_or_default();
        let of_parts: u64 = parts.iter().map(|part| part.n_rows).sum();
        let moves = parts.iter().any(|part| part.rows != RowMap::Concat);
        let n_rows =
            if source.shape.n_dims() <= 1 && moves { source.shape.n_elems() } else { source.shape.n_rows() };
        if of_parts != n_rows || parts.iter().any(|part| matches!(part.rows, RowMap::Slice { .. })) {
            return Err(BackError::NotExpressible {
                what: format!("tensor `{}`, of which rows are lost,", source.name),
            });
        }
        Ok(BackTensor { name: source.name.clone(), shape: source.shape, parts })
    };
    sources.iter().map(back).collect()
}

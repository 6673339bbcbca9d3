//! Conversion, inverted: for every architecture whose table and keys can be read backwards.
//!
//! A config is made of the file's keys by the names that the architecture's config class has for
//! them. Then the conversion is run again, from that config and the tensors that it would take: only
//! if every key and every tensor of the file comes out does the config stand, and the row maps of
//! that layout, inverted, say where the rows of each tensor are.

use std::collections::{BTreeMap, HashSet};

use gguf::{Array, Metadata, Value};
use serde_json::{Map, Value as Json, json};
use tensor::Shape;

use super::config::{self, Model};
use super::names::NAMES;
use super::sources::{self, sources};
use super::{ExportError, ExportPart, ExportTensor, GgufInput, Keys};
use crate::arch::{Arch, Class};
use crate::config::classes::{ConfigClass, FieldDefault};
use crate::layout::{Data, Layout};
use crate::registry;
use crate::resolve::{Resolved, context};
use crate::{ArchError, Input, Options, SourceTensor, pooling};

/// The config and the tensors of a checkpoint.
///
/// # Errors
/// [`ExportError`]: of all config classes of the architecture, what the first one could not say.
pub fn read(
    keys: &Keys<'_>,
    arch: &'static Arch,
    input: &GgufInput<'_>,
) -> Result<(Model, Vec<ExportTensor>), ExportError> {
    // Classes that leave out the start of names come last, for the others have it; those with a classifier
    // first, if there is one.
    let has_classifier = input.tensors.iter().any(|(name, _)| name.starts_with("cls."));
    let mut classes: Vec<&Class> = arch.classes.iter().collect();
    classes.sort_by_key(|class| {
        let classifies = class.name.ends_with("ForSequenceClassification");
        (!class.prefix.is_empty(), classifies != has_classifier, class.spelling)
    });
    let mut first = None;
    for class in &classes {
        let index = arch.classes.iter().position(|other| other.name == class.name).unwrap_or_default();
        // Classes and config classes that are equally many belong together.
        let configs: Vec<Option<&ConfigClass>> = match arch.configs {
            // Older spellings are those of files that no config class reads.
            [] => vec![None],
            _ if class.spelling > 0 => vec![None],
            configs if configs.len() == classes.len() => vec![configs.get(index)],
            configs => configs.iter().map(Some).collect(),
        };
        for config in configs {
            // What neither keys nor tensors say of themselves: flags, one by one the other way round.
            let plain = std::iter::once(None);
            for changed in plain.chain(config.into_iter().flat_map(flags).map(Some)) {
                match attempt(keys, arch, **class, config, changed, input) {
                    Ok(found) => return Ok(found),
                    Err(error) => first = first.or(Some(error)),
                }
            }
        }
    }
    Err(first.unwrap_or(ExportError::NotExpressible { what: format!("architecture `{}`", arch.name) }))
}

/// The flags of a config class, each with the value that is not its default.
fn flags(class: &ConfigClass) -> Vec<(&'static str, bool)> {
    let fields = class.fields.iter().copied().flatten();
    let mut flags: Vec<(&'static str, bool)> = fields
        .filter_map(|(name, _, default)| match default {
            FieldDefault::Bool(default) => Some((*name, !default)),
            _ => None,
        })
        .filter(|(name, _)| !matches!(*name, "use_cache" | "tie_word_embeddings" | "output_router_logits"))
        .collect();
    flags.dedup_by_key(|(name, _)| *name);
    flags
}

fn attempt(
    keys: &Keys<'_>,
    arch: &'static Arch,
    class: Class,
    config_class: Option<&ConfigClass>,
    changed: Option<(&'static str, bool)>,
    input: &GgufInput<'_>,
) -> Result<(Model, Vec<ExportTensor>), ExportError> {
    let files = pooling::files(keys.count(&format!("{}.pooling_type", arch.written()))?);
    let mut checkpoint = Input {
        files: files.iter().map(|(name, bytes)| (name.clone(), bytes.as_slice())).collect(),
        ..Input::default()
    };
    let mut config = candidate(keys, arch, class.name, config_class, input)?;
    config.extend(changed.map(|(name, value)| (name.to_owned(), value.into())));
    let names = &sources::names(arch, input);
    checkpoint.config = complete(keys, arch, config, &checkpoint, names)?;
    let hparams = registry::hparams(arch, &checkpoint.config).map_err(ExportError::Conversion)?;
    let hparams = (arch.prepare)(hparams, names).map_err(ExportError::Conversion)?;
    checkpoint.tensors = sources(&context(arch, class, &hparams, &Input::default()), arch, class, input)?;
    let options = Options { arch_as: Some(class.name.to_owned()), ..Options::default() };
    let converted = Resolved::new(&checkpoint, &options).map_err(ExportError::Conversion)?;
    same_keys(arch, keys.metadata, &converted.layout.metadata)?;
    let tensors = inverted(&converted.layout, &checkpoint.tensors, input)?;
    let rows =
        input.tensors.iter().find(|(name, _)| name == arch.embedding).map_or(0, |(_, shape)| shape.n_rows());
    let config = checkpoint.config.clone();
    drop(checkpoint);
    let n_layers = hparams.n_layers().map_err(ExportError::Conversion)?;
    let model = Model {
        config,
        files,
        n_layers,
        n_head: 0,
        n_head_kv: 0,
        head_dim: 0,
        n_experts: 0,
        vocab_size: rows,
    };
    Ok((model, tensors))
}

/// Trials of single values that a config is completed with; configs have less than a hundred keys.
const MAX_TRIALS: usize = 2000;

/// The config with what its architecture's own names say: the keys of the file that do not come out of
/// it are given, one after the other, to the names that conversion reads them from, and stay there
/// where that brings it nearer to the file.
fn complete(
    keys: &Keys<'_>,
    arch: &'static Arch,
    mut config: Map<String, Json>,
    checkpoint: &Input<'_>,
    names: &[SourceTensor],
) -> Result<Json, ExportError> {
    let mut nearest = Rerun::new(keys, arch, &config, checkpoint, names);
    let mut trials = 0;
    'better: while nearest.wrong > 0 || nearest.missing.is_some() {
        for (key, name) in nearest.wanted(keys, arch) {
            let mut values = spellings(keys, &key);
            let mut next = 0;
            while let Some(value) = values.get(next).cloned() {
                (next, trials) = (next + 1, trials + 1);
                if trials > MAX_TRIALS {
                    break 'better;
                }
                let mut trial = config.clone();
                put(&mut trial, &name, value.clone());
                let tried = Rerun::new(keys, arch, &trial, checkpoint, names);
                if tried.wrong < nearest.wrong
                    || tried.wrong == nearest.wrong
                        && nearest.missing.is_some()
                        && tried.missing != nearest.missing
                {
                    (config, nearest) = (trial, tried);
                    continue 'better;
                }
                if next == 1 {
                    values.extend(solved(keys, &key, &value, tried.made(&key)));
                }
            }
        }
        break;
    }
    Ok(Json::Object(config))
}

/// Values that may lead to a number of the file where that number itself leads to another one: the key may
/// be the value and some more, or so many times the value, or a number divided by it.
fn solved(keys: &Keys<'_>, key: &str, value: &Json, made: Option<&Value>) -> Vec<Json> {
    let number = |value: &Value| match value {
        Value::F32(value) => Some(f64::from(*value)),
        value => value.as_u64().map(|count| count as f64),
    };
    let (Some(wanted), Some(made)) = (keys.get(key).and_then(number), made.and_then(number)) else {
        return Vec::new();
    };
    let is_whole = value.is_u64();
    let of = |number: f64| {
        let whole = number.fract() == 0.0 && (0.0..9e15).contains(&number);
        // Short decimals are what people write.
        let short = format!("{number:.6}").parse().unwrap_or(number);
        match is_whole && whole {
            true => vec![Json::from(number as u64)],
            false => vec![Json::from(short), Json::from(number)],
        }
    };
    [2.0 * wanted - made, wanted * wanted / made, made]
        .into_iter()
        .filter(|number| number.is_finite())
        .flat_map(of)
        .collect()
}

/// Sets a key; of objects inside where the name has a point.
fn put(config: &mut Map<String, Json>, name: &str, value: Json) {
    match name.split_once('.') {
        None => drop(config.insert(name.into(), value)),
        Some((outer, inner)) => {
            // Rotary parameters stand there twice.
            if let ("rope_parameters", Some(Json::Object(scaling))) = (outer, config.get_mut("rope_scaling"))
            {
                scaling.insert(inner.into(), value.clone());
            }
            let object = config.entry(outer).or_insert_with(|| json!({}));
            if let Json::Object(object) = object {
                object.insert(inner.into(), value);
            }
        }
    }
}

/// A value of the file as a config may have it: a number with a point, a whole one, and what stands for a
/// number in words.
fn spellings(keys: &Keys<'_>, key: &str) -> Vec<Json> {
    let Some(have) = keys.get(key) else {
        // What is not in the file is not to come of the config either.
        return vec![Json::Null];
    };
    let value = json_of(keys, key, have);
    let float = value.as_ref().filter(|value| value.is_f64()).and_then(Json::as_f64);
    let whole = float
        .filter(|number| number.fract() == 0.0 && *number >= 0.0)
        .map(|number| Json::from(number as u64));
    let named = match have {
        Value::Array(Array::String(labels)) => {
            let label = |(id, label): (usize, &[u8])| (id.to_string(), String::from_utf8_lossy(label).into());
            Some(Json::Object(labels.iter().enumerate().map(label).collect()))
        }
        have => {
            let words: &[(&str, u64, &str)] = &[
                (".expert_gating_func", 1, "softmax"),
                (".expert_gating_func", 2, "sigmoid"),
                (".expert_gating_func", 4, "sqrtsoftplus"),
                (".classifier.pooling_type", 1, "mean"),
                (".classifier.pooling_type", 2, "cls"),
                (".ssm.dt_b_c_rms", 1, "falcon_mamba"),
            ];
            let id = if *have == Value::Bool(true) { Some(1) } else { have.as_u64() };
            let word = words.iter().find(|(end, of, _)| key.ends_with(end) && id == Some(*of));
            word.map(|(.., word)| (*word).into())
        }
    };
    value.into_iter().chain(whole).chain(named).collect()
}

/// How far the keys that come of a config are from those of the file.
struct Rerun {
    /// Keys that are missing, or other than in the file.
    wrong: usize,
    /// These and what they come of.
    asked: Vec<(String, Vec<String>)>,
    /// A name in the config that is missing altogether.
    missing: Option<String>,
    /// What comes out.
    made: Metadata,
}

impl Rerun {
    fn new(
        keys: &Keys<'_>,
        arch: &Arch,
        config: &Map<String, Json>,
        checkpoint: &Input<'_>,
        names: &[SourceTensor],
    ) -> Rerun {
        let mut made = crate::Keys::new(arch.written());
        let hparams = registry::hparams(arch, &Json::Object(config.clone()))
            .and_then(|hparams| (arch.prepare)(hparams, names))
            .and_then(|mut hparams| {
                hparams.derived.pooling = pooling::read(checkpoint)?;
                (arch.keys)(&hparams, &mut made)
            });
        let needed = arch.needs.iter().find(|key| config.get(**key).is_none_or(Json::is_null));
        let missing = match (hparams, needed) {
            (Err(ArchError::MissingKey { key, .. }), _) => Some(key),
            (_, Some(key)) => Some((*key).to_owned()),
            _ => None,
        };
        let made = made.finish();
        let own = |key: &str| is_own(arch, key);
        let differs = |key: &str| keys.get(key) != made.metadata.get(key);
        let wrong =
            keys.metadata.iter().map(|(key, _)| key.as_str()).filter(|key| own(key) && differs(key)).count();
        let extra = made.metadata.iter().filter(|(key, _)| own(key) && keys.get(key).is_none()).count();
        let predicted = format!("{}.nextn_predict_layers", arch.written());
        let asked = made.sources.iter();
        let asked = asked.map(|source| (format!("{}.{}", arch.written(), source.key), source.names.clone()));
        // How many layers there are is known, of which kind they are is not.
        let counted = format!("{}.block_count", arch.written());
        let asked =
            asked.filter(|(key, _)| differs(key) && (*key != counted || keys.get(&predicted).is_none()));
        let asked = asked.collect();
        Rerun { wrong: wrong + extra, asked, missing, made: made.metadata }
    }

    /// The value of a key that comes out.
    fn made(&self, key: &str) -> Option<&Value> {
        self.made.iter().find(|(other, _)| other == key).map(|(_, value)| value)
    }

    /// Keys of the file, and names in a config that may give them.
    fn wanted(&self, keys: &Keys<'_>, arch: &Arch) -> Vec<(String, String)> {
        let of_missing = |name: &String| {
            let rows = NAMES.iter().filter(|(_, names)| names.contains(&name.as_str()));
            let rows = rows.map(|(key, _)| (format!("{}.{key}", arch.written()), name.clone()));
            rows.filter(|(key, _)| keys.get(key).is_some()).collect::<Vec<_>>()
        };
        let missing = self.missing.iter().flat_map(of_missing);
        let asked =
            self.asked.iter().flat_map(|(key, names)| names.iter().map(|name| (key.clone(), name.clone())));
        missing.chain(asked).collect()
    }
}

/// Whether a key is one of the architecture's hyperparameters.
fn is_own(arch: &Arch, key: &str) -> bool {
    key.strip_prefix(arch.written()).is_some_and(|rest| rest.starts_with('.'))
}

/// A config that may be the one.
fn candidate(
    keys: &Keys<'_>,
    arch: &Arch,
    class: &str,
    config_class: Option<&ConfigClass>,
    input: &GgufInput<'_>,
) -> Result<Map<String, Json>, ExportError> {
    let own = |key: &str| format!("{}.{key}", arch.written());
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
    // Layers that predict more than the next token are counted among the others.
    if let (Some(all), Some(predicted)) =
        (keys.count(&own("block_count"))?, keys.count(&own("nextn_predict_layers"))?)
    {
        config.insert("num_hidden_layers".into(), all.saturating_sub(predicted).into());
    }
    if has_field("feed_forward_proj") {
        let kind = if has_tensor(".ffn_gate.weight") { "gated-gelu" } else { "relu" };
        config.insert("feed_forward_proj".into(), kind.into());
    }
    if let Some((_, shape)) = input.tensors.iter().find(|(name, _)| name == "token_types.weight") {
        config.insert("type_vocab_size".into(), shape.n_rows().into());
    }
    if has_field("expert_layer_period") {
        let n_layers = keys.count(&own("block_count"))?.unwrap_or(0);
        let has_router = |layer: &u64| {
            let router = format!("blk.{layer}.ffn_gate_inp.weight");
            input.tensors.iter().any(|(name, _)| *name == router)
        };
        let mut mixtures = (0..n_layers.min(input.tensors.len() as u64)).filter(has_router);
        if let Some(first) = mixtures.next() {
            config.insert("expert_layer_offset".into(), first.into());
            let period = mixtures.next().map_or(n_layers, |second| second - first);
            config.insert("expert_layer_period".into(), period.into());
        }
    }
    if has_field("num_ln_in_parallel_attn") {
        let norms = if has_tensor(".attn_norm_2.weight") { 2 } else { 1 };
        config.insert("num_ln_in_parallel_attn".into(), norms.into());
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
    if has_field("layer_types")
        && let Some(kinds) =
            LAYER_KINDS.iter().find_map(|(key, kind)| Some((flags_of(keys.get(&own(key))?)?, *kind)))
    {
        let (mut flags, [if_so, if_not]) = kinds;
        // The config speaks of the layers before those of a prediction only.
        let predicted = keys.count(&own("nextn_predict_layers"))?.unwrap_or(0);
        flags.truncate((flags.len() as u64).saturating_sub(predicted) as usize);
        config.insert(
            "layer_types".into(),
            flags.iter().map(|flag| if *flag { if_so } else { if_not }).collect(),
        );
    }
    if let Some(Value::Array(Array::I32(counts))) = keys.get(&own("attention.head_count_kv")) {
        // Layers without attention have none.
        config.insert("num_key_value_heads".into(), counts.iter().max().copied().unwrap_or(0).into());
        let attends: Vec<usize> = (0..counts.len()).filter(|layer| counts[*layer] != 0).collect();
        if has_field("attn_layer_period")
            && let Some(first) = attends.first()
        {
            config.insert("attn_layer_offset".into(), (*first).into());
            let period = attends.get(1).map_or(counts.len(), |second| second - first);
            config.insert("attn_layer_period".into(), period.into());
        }
    }
    for (name, of) in [("bos_token_id", "bos"), ("eos_token_id", "eos"), ("pad_token_id", "padding")] {
        config.insert(name.into(), keys.count(&format!("tokenizer.ggml.{of}_token_id"))?.into());
    }
    let embedding = input.tensors.iter().find(|(name, _)| name == arch.embedding);
    let (_, embedding) =
        embedding.ok_or_else(|| ExportError::MissingTensors { names: vec![arch.embedding.into()] })?;
    config.insert("vocab_size".into(), embedding.n_rows().into());
    config.insert("tie_word_embeddings".into(), (!has_tensor("output.weight") || tied(input)).into());
    for name in ["dtype", "torch_dtype"] {
        config.insert(name.into(), input.dtype.into());
    }
    rope(keys, arch, input, &mut config)?;
    Ok(config)
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
) -> Result<(), ExportError> {
    let own = |key: &str| format!("{}.{key}", arch.written());
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

/// Tensors that come of a config and not of a checkpoint.
pub fn is_computed(name: &str) -> bool {
    matches!(name, "rope_freqs.weight" | "rope_factors_long.weight" | "rope_factors_short.weight")
}

/// Whether conversion gives the same hyperparameters.
fn same_keys(arch: &Arch, have: &Metadata, made: &Metadata) -> Result<(), ExportError> {
    let own = |(key, _): &&(String, Value)| is_own(arch, key);
    let keys = have.iter().filter(own).chain(made.iter().filter(own)).map(|(key, _)| key);
    for key in keys {
        let (have, made) = (have.get(key), made.get(key));
        if have != made {
            let text = |value: Option<&Value>| value.map_or("nothing".to_owned(), |value| format!("{value}"));
            let what = format!("metadata key `{key}`, {}, which would be {},", text(have), text(made));
            return Err(ExportError::NotExpressible { what });
        }
    }
    Ok(())
}

/// Every tensor of the checkpoint with the places of its rows.
fn inverted(
    layout: &Layout,
    sources: &[SourceTensor],
    input: &GgufInput<'_>,
) -> Result<Vec<ExportTensor>, ExportError> {
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
        return Err(ExportError::UnusedTensors { names: extra });
    }
    if !absent.is_empty() {
        return Err(ExportError::MissingTensors { names: absent });
    }
    let mut parts: BTreeMap<&str, Vec<ExportPart>> = BTreeMap::new();
    for tensor in &layout.tensors {
        let (names, rows, element, matrix) = match &tensor.data {
            Data::Rows { sources, rows, element } => (sources.as_slice(), *rows, *element, None),
            Data::Columns { source, matrix, rows, element } => {
                (std::slice::from_ref(source), *rows, *element, Some(*matrix))
            }
            Data::Computed(_) if is_computed(&tensor.name) => continue,
            _ => return Err(ExportError::NotExpressible { what: format!("tensor `{}`", tensor.name) }),
        };
        let view = tensor.row_view();
        let n_rows = view.n_rows / (names.len() as u64).max(1);
        for (index, name) in names.iter().enumerate() {
            parts.entry(name.as_str()).or_default().push(ExportPart {
                source: tensor.name.clone(),
                first_row: index as u64 * n_rows,
                n_rows,
                row_elems: view.row_elems,
                rows,
                element,
                matrix,
            });
        }
    }
    let exported = |source: &SourceTensor| {
        let parts = parts.remove(source.name.as_str()).unwrap_or_default();
        let of_parts: u64 = parts.iter().map(|part| part.n_rows.saturating_mul(part.row_elems)).sum();
        if of_parts != source.shape.n_elems() {
            return Err(ExportError::NotExpressible {
                what: format!("tensor `{}`, of which rows are lost,", source.name),
            });
        }
        Ok(ExportTensor { name: source.name.clone(), shape: source.shape, parts })
    };
    sources.iter().map(exported).collect()
}

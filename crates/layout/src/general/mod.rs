//! The `general.*` keys: sampling, name, authorship, license, origins, tags.
//!
//! The first source with a value wins: a card of override keys, the model card's front matter,
//! `_name_or_path` of the config, the folder's name.
//!
//! Source: `Metadata` in `gguf-py/gguf/metadata.py` and `ModelBase.prepare_metadata` in `conversion/base.py`.

mod card;
mod known;
mod model_id;

use gguf_container::Value;
use serde_json::Value as Json;

use crate::error::bad_in;
use crate::keys::Keys;
use crate::layout::OutTensor;
use crate::{ArchError, Input, Options};
use known::{General, TEXTS};
use model_id::ModelId;

/// Sampling keys after `general.sampling.`, in file order: kind, and the keys of `generation_config.json`,
/// the first that exists.
const SAMPLING: &[(&str, Kind, &[&str])] = &[
    ("sequence", Kind::Text, &["sequence"]),
    ("top_k", Kind::Int, &["top_k"]),
    ("top_p", Kind::Float, &["top_p"]),
    ("min_p", Kind::Float, &["min_p"]),
    ("xtc_probability", Kind::Float, &["xtc_probability"]),
    ("xtc_threshold", Kind::Float, &["xtc_threshold"]),
    ("temp", Kind::Float, &["temperature"]),
    ("penalty_last_n", Kind::Int, &["penalty_last_n"]),
    ("penalty_repeat", Kind::Float, &["penalty_repeat", "repetition_penalty"]),
    ("mirostat", Kind::Int, &["mirostat"]),
    ("mirostat_tau", Kind::Float, &["mirostat_tau"]),
    ("mirostat_eta", Kind::Float, &["mirostat_eta"]),
];

#[derive(Clone, Copy)]
enum Kind {
    Text,
    Int,
    Float,
}

/// Kind of file: the value of `general.type`, and the key that follows it for some kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// A complete model.
    Model,
    /// A LoRA adapter.
    Lora,
    /// A vision tower or audio encoder.
    Projector,
}

/// Writes `general.type` and everything up to the hyperparameters. `tensors` are the output tensors, from
/// which the size is counted.
///
/// # Errors
///
/// [`ArchError::BadKey`] for sampling parameters that are not numbers.
pub fn keys(
    input: &Input<'_>,
    options: &Options,
    kind: FileKind,
    tensors: &[OutTensor],
    keys: &mut Keys,
) -> Result<(), ArchError> {
    let size = Size::of(tensors);
    let empty = Json::Object(serde_json::Map::new());
    let overrides = options.metadata_override.as_ref().unwrap_or(&empty);
    let mut general = General::default();
    if let Some(Json::Object(front)) = &input.card {
        card::read(front, size.total, &mut general);
    }
    let named = options.model_name.as_deref().filter(|_| options.parts_from_name);
    if let Some(name) = named {
        ["basename", "finetune", "version", "size_label"].into_iter().for_each(|key| general.set(key, None));
        general.hint_parts(ModelId::parse(name, 0));
    }
    if let Some(path) = input.config.get("_name_or_path").and_then(Json::as_str)
        && path.matches('/').count() <= 1
        && named.is_none()
        && !card::is_local_path(path)
    {
        // `_name_or_path` of the config is where the model was loaded from when it was saved:
        // `org/name` on the Hub.
        general.hint_id(ModelId::parse(path, size.total));
    }
    // Hints never replace what is known: card, then config, then the name of the folder.
    if named.is_none() {
        general.hint_id(ModelId::parse(&input.folder_name, size.total));
    }
    // Keys that a person gives do replace, `null` takes a key away. The reference leaves `license` to
    // the card.
    for key in TEXTS.iter().filter(|key| **key != "license") {
        if let Some(value) = overrides.get(format!("general.{key}")) {
            general.set(key, Some(value.clone()).filter(|value| !value.is_null()));
        }
    }
    card::read_overrides(overrides, &mut general);
    if let Some(name) = &options.model_name {
        general.set("name", Some(name.as_str().into()));
    }
    general.hint("name", input.folder_name.as_str().into());
    if !general.has("size_label") && size.total > 0 {
        let label = gguf_container::size_label(size.total, size.shared, size.expert, size.n_experts);
        general.hint("size_label", label.into());
    }

    match kind {
        FileKind::Model => keys.set("general.type", "model".into()),
        FileKind::Projector => keys.set("general.type", "mmproj".into()),
        FileKind::Lora => {
            keys.set("general.type", "adapter".into());
            keys.set("adapter.type", "lora".into());
        }
    }
    sampling_keys(input.generation_config.as_ref().unwrap_or(&empty), overrides, keys)?;
    general.write(keys);
    Ok(())
}

fn sampling_keys(generation: &Json, overrides: &Json, keys: &mut Keys) -> Result<(), ArchError> {
    const FILE: &str = "generation_config.json";
    for (key, kind, names) in SAMPLING {
        let key = format!("general.sampling.{key}");
        let parameter = names.iter().find_map(|name| Some((*name, generation.get(name)?)));
        let Some((name, value)) = overrides.get(&key).map(|value| (key.as_str(), value)).or(parameter) else {
            continue;
        };
        if value.is_null() {
            continue;
        }
        match kind {
            Kind::Text => {
                keys.set_text(&key, value.as_str().ok_or_else(|| bad_in(FILE, name, value, "a text"))?)
            }
            Kind::Int => {
                let number = value.as_i64().and_then(|number| i32::try_from(number).ok());
                keys.set(&key, Value::I32(number.ok_or_else(|| bad_in(FILE, name, value, "an integer"))?));
            }
            Kind::Float => {
                let number = value.as_f64().map(|number| number as f32).filter(|number| number.is_finite());
                keys.set(&key, Value::F32(number.ok_or_else(|| bad_in(FILE, name, value, "a number"))?));
            }
        }
    }
    Ok(())
}

/// Numbers of parameters.
///
/// Source: `GGUFWriter.get_total_parameter_count` in `gguf-py/gguf/gguf_writer.py`.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Size {
    total: i64,
    /// Parameters that every token uses.
    shared: i64,
    /// Parameters of one expert over all layers.
    expert: i64,
    n_experts: u64,
}

impl Size {
    fn of(tensors: &[OutTensor]) -> Size {
        let mut size = Size::default();
        let (mut experts_seen, mut n_expert_tensors) = (0u64, 0u64);
        let mut rank_width = None;
        for tensor in tensors {
            let mut elems = i64::try_from(tensor.shape.n_elems()).unwrap_or(i64::MAX);
            // A pair of an adapter counts as the matrix that it makes.
            // A (in, rank) and B (rank, out), which follows it: the matrix has in * out elements.
            if tensor.name.ends_with(".lora_a") {
                rank_width = Some(i64::try_from(tensor.shape.row_elems()).unwrap_or(i64::MAX));
                continue;
            }
            if let (true, Some(row)) = (tensor.name.ends_with(".lora_b"), rank_width) {
                let n_rows = i64::try_from(tensor.shape.n_rows()).unwrap_or(i64::MAX);
                elems = n_rows.saturating_mul(row);
            }
            size.total = size.total.saturating_add(elems);
            // Experts are the outer dimension: (in, out, experts) of a matrix, (out, experts) of a
            // bias.
            let place = if tensor.name.contains(".bias") { 1 } else { 2 };
            let n_experts = tensor.shape.dim(place);
            if tensor.name.contains("_exps.") && tensor.shape.n_dims() >= 3 && n_experts > 0 {
                size.expert =
                    size.expert.saturating_add(elems / i64::try_from(n_experts).unwrap_or(i64::MAX));
                experts_seen = experts_seen.saturating_add(n_experts);
                n_expert_tensors += 1;
            } else {
                size.shared = size.shared.saturating_add(elems);
            }
        }
        size.n_experts = experts_seen.checked_div(n_expert_tensors).unwrap_or(0);
        if rank_width.is_some() {
            // Below zero says that it is no exact size.
            size.total = -size.total;
        }
        size
    }
}

#[cfg(test)]
mod tests;

//! The `general.*` keys: sampling, name, authorship, licence, origins, tags.
//!
//! What is said first wins: a card of override keys, then the model card's front matter, then
//! `_name_or_path` of the config, then the folder's name.
//!
//! Source: `Metadata` in `gguf-py/gguf/metadata.py` and `ModelBase.prepare_metadata` in
//! `conversion/base.py` of llama.cpp, as vendored in llama-cpp-python 0.3.36.

mod card;
mod model_id;

use gguf::{Array, Value};
use serde_json::Value as Json;

use crate::config::bad_in;
use crate::keys::Keys;
use crate::layout::OutTensor;
use crate::{ArchError, Input, Options};
use model_id::ModelId;

/// Text keys after `general.`, in the order of the file.
const TEXTS: &[&str] = &[
    "name",
    "author",
    "version",
    "organization",
    "finetune",
    "basename",
    "description",
    "quantized_by",
    "size_label",
    "license",
    "license.name",
    "license.link",
    "url",
    "doi",
    "uuid",
    "repo_url",
    "source.url",
    "source.doi",
    "source.uuid",
    "source.repo_url",
];

/// Sampling keys after `general.sampling.`, in the order of the file: kind, and the keys of
/// `generation_config.json`, the first that is there.
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

/// What is known of a model apart from its numbers.
#[derive(Debug, Default)]
struct General {
    /// By the index of [`TEXTS`].
    texts: [Option<Json>; TEXTS.len()],
    base_models: Option<Vec<Origin>>,
    datasets: Option<Vec<Origin>>,
    tags: Option<Vec<Json>>,
    languages: Option<Vec<Json>>,
}

/// A model or data set that this one was made from: keys after `general.base_model.0.`.
type Origin = serde_json::Map<String, Json>;

impl General {
    /// Sets a text that is not known yet.
    fn hint(&mut self, key: &str, value: Json) {
        if let Some(place) = TEXTS.iter().position(|text| *text == key).and_then(|i| self.texts.get_mut(i))
            && place.is_none()
            && !value.is_null()
        {
            *place = Some(value);
        }
    }

    fn set(&mut self, key: &str, value: Option<Json>) {
        if let Some(place) = TEXTS.iter().position(|text| *text == key).and_then(|i| self.texts.get_mut(i)) {
            *place = value;
        }
    }

    fn has(&self, key: &str) -> bool {
        TEXTS.iter().zip(&self.texts).any(|(text, value)| *text == key && value.is_some())
    }

    fn hint_id(&mut self, id: ModelId) {
        let parts = [
            ("name", id.full_name.as_deref().map(model_id::title)),
            ("organization", id.organization.as_deref().map(model_id::title)),
            ("basename", id.basename),
            ("finetune", id.finetune),
            ("version", id.version),
            ("size_label", id.size_label),
        ];
        for (key, value) in parts {
            self.hint(key, value.map_or(Json::Null, Json::from));
        }
    }
}

/// Writes `general.type` and all that follows it up to the hyperparameters. `tensors` are the
/// output tensors, from which the size is counted.
///
/// # Errors
///
/// [`ArchError::BadKey`] for sampling parameters that are no numbers.
pub fn keys(
    input: &Input<'_>,
    options: &Options,
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
    if let Some(path) = input.config.get("_name_or_path").and_then(Json::as_str)
        && path.matches('/').count() <= 1
    {
        general.hint_id(ModelId::parse(path, size.total));
    }
    general.hint_id(ModelId::parse(&input.folder_name, size.total));
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
        let label = gguf::size_label(size.total, size.shared, size.expert, size.n_experts);
        general.hint("size_label", label.into());
    }

    keys.set("general.type", "model".into());
    sampling_keys(input.generation_config.as_ref().unwrap_or(&empty), overrides, keys)?;
    general.write(keys);
    Ok(())
}

fn sampling_keys(generation: &Json, overrides: &Json, keys: &mut Keys) -> Result<(), ArchError> {
    const FILE: &str = "generation_config.json";
    for (key, kind, names) in SAMPLING {
        let key = format!("general.sampling.{key}");
        let given = names.iter().find_map(|name| Some((*name, generation.get(name)?)));
        let Some((name, value)) = overrides.get(&key).map(|value| (key.as_str(), value)).or(given) else {
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

/// Keys of an origin, in the order of the file.
const ORIGIN: [&str; 9] =
    ["name", "author", "version", "organization", "description", "url", "doi", "uuid", "repo_url"];

impl General {
    fn write(&mut self, keys: &mut Keys) {
        for (key, value) in TEXTS.iter().zip(std::mem::take(&mut self.texts)) {
            let Some(value) = value else { continue };
            match text(&value) {
                Some(text) => keys.set_text(format!("general.{key}"), &text),
                None => {
                    keys.notes.push(format!("`{key}` of the model card is neither text nor a list of texts"))
                }
            }
        }
        for (group, origins) in [("base_model", self.base_models.take()), ("dataset", self.datasets.take())] {
            let Some(origins) = origins else { continue };
            keys.set(
                format!("general.{group}.count"),
                Value::U32(u32::try_from(origins.len()).unwrap_or(u32::MAX)),
            );
            for (i, origin) in origins.iter().enumerate() {
                for key in ORIGIN {
                    if let Some(text) = origin.get(key).and_then(text) {
                        keys.set_text(format!("general.{group}.{i}.{key}"), &text);
                    }
                }
            }
        }
        for (key, items) in [("tags", self.tags.take()), ("languages", self.languages.take())] {
            let items: gguf::Strings = items.unwrap_or_default().iter().filter_map(text).collect();
            if !items.is_empty() {
                keys.set(format!("general.{key}"), Value::Array(Array::String(items)));
            }
        }
    }
}

/// A value of a card as text: itself, a number as it is written, a list joined by commas (the
/// reference does so for licences and stops at other values that are not text).
fn text(value: &Json) -> Option<String> {
    match value {
        Json::String(text) => Some(text.clone()),
        Json::Number(number) => Some(number.to_string()),
        Json::Bool(truth) => Some(truth.to_string()),
        Json::Array(items) => Some(items.iter().map(text).collect::<Option<Vec<_>>>()?.join(",")),
        Json::Null | Json::Object(_) => None,
    }
}

/// Numbers of parameters.
///
/// Source: `GGUFWriter.get_total_parameter_count` in `gguf-py/gguf/gguf_writer.py`.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Size {
    total: i64,
    /// Of those that every token uses.
    shared: i64,
    /// Of one expert over all layers.
    expert: i64,
    n_experts: u64,
}

impl Size {
    fn of(tensors: &[OutTensor]) -> Size {
        let mut size = Size::default();
        let (mut experts_seen, mut n_expert_tensors) = (0u64, 0u64);
        let mut row_elems_of_a = None;
        for tensor in tensors {
            let mut elems = i64::try_from(tensor.shape.n_elems()).unwrap_or(i64::MAX);
            // A pair of an adapter counts as the matrix that it makes.
            if tensor.name.ends_with(".lora_a") {
                row_elems_of_a = Some(i64::try_from(tensor.shape.row_elems()).unwrap_or(i64::MAX));
                continue;
            }
            if let (true, Some(row)) = (tensor.name.ends_with(".lora_b"), row_elems_of_a) {
                let n_rows = i64::try_from(tensor.shape.n_rows()).unwrap_or(i64::MAX);
                elems = n_rows.saturating_mul(row);
            }
            size.total = size.total.saturating_add(elems);
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
        if row_elems_of_a.is_some() {
            // Below zero says that it is no exact size.
            size.total = -size.total;
        }
        size
    }
}

#[cfg(test)]
mod tests;

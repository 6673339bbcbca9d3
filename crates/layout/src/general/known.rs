//! General facts about a model, gathered from several sources.

use std::collections::BTreeSet;

use gguf_container::{Array, Value};
use serde_json::Value as Json;

use super::model_id::{self, ModelId};
use crate::departure::LOCAL_PATH;
use crate::keys::Keys;

/// Text keys after `general.`, in the order of the file.
pub const TEXTS: &[&str] = &[
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

/// Keys of an origin, in the order of the file.
const ORIGIN: [&str; 9] =
    ["name", "author", "version", "organization", "description", "url", "doi", "uuid", "repo_url"];

/// General facts about a model.
#[derive(Debug, Default)]
pub struct General {
    /// By the index of [`TEXTS`].
    pub texts: [Option<Json>; TEXTS.len()],
    pub base_models: Option<Vec<Origin>>,
    pub datasets: Option<Vec<Origin>>,
    /// Keys of which local paths were omitted.
    pub local_paths: BTreeSet<&'static str>,
    pub tags: Option<Vec<Json>>,
    pub languages: Option<Vec<Json>>,
}

/// A model or data set that this one was made from: keys after `general.base_model.0.`.
pub type Origin = serde_json::Map<String, Json>;

impl General {
    /// Sets a text that is not known yet.
    pub fn hint(&mut self, key: &str, value: Json) {
        if let Some(place) = TEXTS.iter().position(|text| *text == key).and_then(|i| self.texts.get_mut(i))
            && place.is_none()
            && !value.is_null()
        {
            *place = Some(value);
        }
    }

    pub fn set(&mut self, key: &str, value: Option<Json>) {
        if let Some(place) = TEXTS.iter().position(|text| *text == key).and_then(|i| self.texts.get_mut(i)) {
            *place = value;
        }
    }

    pub fn has(&self, key: &str) -> bool {
        TEXTS.iter().zip(&self.texts).any(|(text, value)| *text == key && value.is_some())
    }

    pub fn hint_id(&mut self, id: ModelId) {
        // Lower-case words get a capital in names and organizations only.
        let titles = [("name", &id.full_name), ("organization", &id.organization)];
        for (key, text) in titles {
            self.hint(key, text.as_deref().map(model_id::title).map_or(Json::Null, Json::from));
        }
        self.hint_parts(id);
    }

    /// Hints for the parts of a name that file names are made of.
    pub fn hint_parts(&mut self, id: ModelId) {
        let parts = [
            ("basename", id.basename),
            ("finetune", id.finetune),
            ("version", id.version),
            ("size_label", id.size_label),
        ];
        for (key, value) in parts {
            self.hint(key, value.map_or(Json::Null, Json::from));
        }
    }

    /// Writes what is known, in the order of the reference.
    pub fn write(&mut self, keys: &mut Keys) {
        for key in &self.local_paths {
            keys.departs_at(format!("general.{key}"), &LOCAL_PATH);
        }
        // Key by key in the order of `Metadata.set_gguf_meta_model`, which is the order in the file.
        for (key, value) in TEXTS.iter().zip(std::mem::take(&mut self.texts)) {
            let Some(value) = value else { continue };
            match text(&value) {
                Some(text) => keys.set_text(format!("general.{key}"), &text),
                None => keys
                    .notes
                    .push(format!("`{key}` of the model card: expected a string or a list of strings")),
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
            let items: gguf_container::Strings = items.unwrap_or_default().iter().filter_map(text).collect();
            if !items.is_empty() {
                keys.set(format!("general.{key}"), Value::Array(Array::String(items)));
            }
        }
    }
}

/// A value of a card as text: itself, a number as it is written, a list joined by commas (the
/// reference does so for licences and stops at other values that are not text).
pub fn text(value: &Json) -> Option<String> {
    match value {
        Json::String(text) => Some(text.clone()),
        Json::Number(number) => Some(number.to_string()),
        Json::Bool(truth) => Some(truth.to_string()),
        Json::Array(items) => Some(items.iter().map(text).collect::<Option<Vec<_>>>()?.join(",")),
        Json::Null | Json::Object(_) => None,
    }
}

//! Front matter of a model card.
//!
//! Source: `Metadata.apply_metadata_heuristic` in `gguf-py/gguf/metadata.py`. As there, a dictionary among
//! base models or data sets is used unchanged.

use std::collections::BTreeSet;

use serde_json::{Map, Value as Json};

use super::known::{General, Origin};
use super::model_id::{ModelId, title};

/// Text keys: (key of the file, key of the card), in the order in which they are looked up.
const TEXT_KEYS: &[(&str, &str)] = &[
    ("name", "name"),
    ("author", "author"),
    ("version", "version"),
    ("organization", "organization"),
    ("description", "description"),
    ("finetune", "finetune"),
    ("basename", "basename"),
    ("size_label", "size_label"),
    ("source.url", "url"),
    ("source.doi", "doi"),
    ("source.uuid", "uuid"),
    ("source.repo_url", "repo_url"),
    ("name", "model_name"),
    ("author", "model_author"),
    ("version", "model_version"),
    ("organization", "model_organization"),
    ("description", "model_description"),
    ("finetune", "model_finetune"),
    ("basename", "model_basename"),
    ("size_label", "model_size_label"),
    ("source.url", "model_url"),
    ("source.doi", "model_doi"),
    ("source.uuid", "model_uuid"),
    ("source.repo_url", "model_repo_url"),
    ("author", "model_creator"),
    ("basename", "model_type"),
    ("license", "license"),
    ("license.name", "license_name"),
    ("license.link", "license_link"),
];

/// Takes over what the card says.
pub fn read(card: &Map<String, Json>, total_params: i64, general: &mut General) {
    // A key of the file has up to three names in cards; the first that exists counts.
    for (key, card_key) in TEXT_KEYS {
        match card.get(*card_key) {
            // A license is often a file of the repository.
            Some(Json::String(text)) if !key.starts_with("license") && is_local_path(text) => {
                general.local_paths.insert(key);
            }
            Some(value) => general.hint(key, value.clone()),
            None => {}
        }
    }
    let base_models = origins(card, &["base_model", "base_models", "base_model_sources"]);
    general.base_models = public(base_models, "base_model", total_params, &mut general.local_paths);
    let datasets = origins(card, &["datasets", "dataset", "dataset_sources"]);
    general.datasets = public(datasets, "dataset", total_params, &mut general.local_paths);
    extend(&mut general.tags, card, &["tags", "pipeline_tag"]);
    extend(&mut general.languages, card, &["languages", "language"]);
}

/// Takes over base models, data sets, tags and languages of an override file.
pub fn read_overrides(overrides: &Json, general: &mut General) {
    let list = |key: &str| overrides.get(key).map(|value| value.as_array().cloned());
    let origins = |key: &str| {
        list(key).map(|items| {
            let items = items?.into_iter();
            Some(items.map(|item| item.as_object().cloned().unwrap_or_default()).collect::<Vec<Origin>>())
        })
    };
    if let Some(base_models) = origins("general.base_models") {
        general.base_models = base_models;
    }
    if let Some(datasets) = origins("general.datasets") {
        general.datasets = datasets;
    }
    if let Some(tags) = list("general.tags") {
        general.tags = tags;
    }
    if let Some(languages) = list("general.languages") {
        general.languages = languages;
    }
}

/// Models or data sets under the first existing key of `keys`: one text, or a list.
fn origins<'a>(card: &'a Map<String, Json>, keys: &[&str]) -> Option<&'a [Json]> {
    let value = keys.iter().find_map(|key| card.get(*key))?;
    Some(match value {
        Json::String(_) => std::slice::from_ref(value),
        Json::Array(items) => items.as_slice(),
        _ => &[],
    })
}

/// The items that are not local paths. Trainers write the path from which they loaded a model.
fn public(
    items: Option<&[Json]>,
    key: &'static str,
    total_params: i64,
    local_paths: &mut BTreeSet<&'static str>,
) -> Option<Vec<Origin>> {
    let items = items?;
    let mut found: Vec<Origin> = Vec::new();
    for item in items {
        let mut item = item.clone();
        let is_local = |value: &Json| value.as_str().is_some_and(is_local_path);
        let n_facts = item.as_object().map_or(0, Map::len);
        if let Json::Object(facts) = &mut item {
            facts.retain(|_, value| !is_local(value));
        }
        let n_left = item.as_object().map_or(0, Map::len);
        if is_local(&item) || n_left < n_facts {
            local_paths.insert(key);
        }
        if !is_local(&item) && (n_left > 0 || n_facts == 0) {
            found.push(origin(&item, total_params));
        }
    }
    (!found.is_empty() || items.is_empty()).then_some(found)
}

/// True for a path on some machine. Names on the Hub have one slash.
pub fn is_local_path(text: &str) -> bool {
    let has_drive = text.as_bytes().get(1) == Some(&b':') && text.as_bytes()[0].is_ascii_alphabetic();
    let is_address = text.contains("://") && !text.starts_with("file:");
    let starts = ["/", "./", "../", "~/", "file:"].iter().any(|start| text.starts_with(start));
    let is_word = !text.contains(char::is_whitespace);
    !is_address && (starts || has_drive || is_word && (text.contains('\\') || text.matches('/').count() > 1))
}

fn origin(item: &Json, total_params: i64) -> Origin {
    // A base model is given by its id, its address, or an object with its own keys.
    let id = match item {
        Json::Object(map) => return map.clone(),
        Json::String(id) => id,
        _ => return Origin::new(),
    };
    let mut origin = Origin::new();
    let mut set = |key: &str, value: Option<String>| {
        if let Some(value) = value {
            origin.insert(key.into(), value.into());
        }
    };
    let is_url = ["http://", "https://", "ssh://"].iter().any(|start| id.starts_with(start));
    // `https://huggingface.co/org/name` is equivalent to `org/name`; other addresses are kept.
    let model_id = if is_url {
        set("repo_url", Some(id.clone()));
        match hub_id(id) {
            Some(hub_id) => ModelId::parse(hub_id, total_params),
            None => return origin,
        }
    } else {
        let model_id = ModelId::parse(id, total_params);
        if let (Some(org), Some(name)) = (&model_id.organization, &model_id.full_name) {
            set("repo_url", Some(format!("https://huggingface.co/{org}/{name}")));
        }
        model_id
    };
    set("name", model_id.full_name.as_deref().map(title));
    set("organization", model_id.organization.as_deref().map(title));
    set("version", model_id.version);
    origin
}

/// `org/name` of an address on the Hub that ends after these two.
fn hub_id(url: &str) -> Option<&str> {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"))?;
    let id = rest.strip_prefix("huggingface.co/")?;
    let (org, name) = id.split_once('/')?;
    (!org.is_empty() && !name.is_empty() && !name.contains('/')).then_some(id)
}

/// Gathers lists and single texts under several keys.
fn extend(list: &mut Option<Vec<Json>>, card: &Map<String, Json>, keys: &[&str]) {
    for value in keys.iter().filter_map(|key| card.get(*key)).filter(|value| !value.is_null()) {
        let list = list.get_or_insert_default();
        match value {
            Json::String(_) => list.push(value.clone()),
            Json::Array(items) => list.extend(items.iter().cloned()),
            _ => {}
        }
    }
}

//! README.md: a model card whose head says what `general.*` says.
//!
//! Inverse of `Metadata.apply_metadata_heuristic` in `gguf-py/gguf/metadata.py` of llama.cpp, as
//! vendored in llama-cpp-python 0.3.36. Text is written as double-quoted YAML, of which JSON's
//! strings are a part, so that no word is taken for a number or a boolean.

use gguf_container::Metadata;
use serde_json::{Map, Value as Json};

use super::error::ExportError;
use super::layout::{text as text_of, texts};

/// Keys of the head, and the metadata key that each comes from.
const TEXTS: &[(&str, &str)] = &[
    ("name", "general.name"),
    ("author", "general.author"),
    ("version", "general.version"),
    ("organization", "general.organization"),
    ("description", "general.description"),
    ("finetune", "general.finetune"),
    ("basename", "general.basename"),
    ("size_label", "general.size_label"),
    ("url", "general.source.url"),
    ("doi", "general.source.doi"),
    ("uuid", "general.source.uuid"),
    ("repo_url", "general.source.repo_url"),
    ("license", "general.license"),
    ("license_name", "general.license.name"),
    ("license_link", "general.license.link"),
];
/// Known fields of a parent model or a data set.
const PARENT: &[&str] =
    &["name", "author", "version", "organization", "description", "url", "doi", "uuid", "repo_url"];
/// Base address of repositories that are given by name.
const HUB: &str = "https://huggingface.co/";

/// The card.
pub fn card(keys: &Metadata) -> Result<String, ExportError> {
    let mut head = String::new();
    for (key, of) in TEXTS {
        if let Some(text) = text_of(keys, of)? {
            head += &format!("{key}: {}\n", Json::from(text));
        }
    }
    for (key, of) in [("language", "general.languages"), ("tags", "general.tags")] {
        let items = texts(keys, of)?.unwrap_or_default();
        list(&mut head, key, items.into_iter().map(Json::from).collect());
    }
    for (key, of) in [("base_model", "general.base_model"), ("datasets", "general.dataset")] {
        let parents = parents(keys, of)?;
        // A count of none is something that a card can say.
        if parents.is_empty() && keys.count(&format!("{of}.count"))?.is_some() {
            head += &format!("{key}: []\n");
        }
        list(&mut head, key, parents);
    }
    let title = text_of(keys, "general.name")?.unwrap_or_else(|| "A language model".to_owned());
    // One line, and nothing that would read as markup.
    let title: String =
        title.chars().map(|c| if c.is_control() || "<>`[]".contains(c) { ' ' } else { c }).collect();
    Ok(format!(
        "---\n{head}---\n\n# {}\n\nExported from a GGUF file. Weights that were quantized in that file keep \
            their reduced precision.\n",
        title.trim()
    ))
}

fn list(head: &mut String, key: &str, items: Vec<Json>) {
    if !items.is_empty() {
        // JSON lists and objects are YAML too.
        *head += &format!("{key}:\n");
        for item in items {
            *head += &format!("- {item}\n");
        }
    }
}

/// Repositories on the hub by name, others with all known facts.
fn parents(keys: &Metadata, prefix: &str) -> Result<Vec<Json>, ExportError> {
    let count = keys.count(&format!("{prefix}.count"))?.unwrap_or(0);
    let mut parents = Vec::new();
    // A count beyond the number of keys is no reason to look that often.
    for i in 0..count.min(keys.len() as u64) {
        let mut known = Map::new();
        for key in PARENT {
            if let Some(text) = text_of(keys, &format!("{prefix}.{i}.{key}"))? {
                known.insert((*key).to_owned(), text.into());
            }
        }
        let on_hub = known.get("repo_url").and_then(Json::as_str).and_then(|url| url.strip_prefix(HUB));
        match on_hub.filter(|repo| repo.split('/').count() == 2 && !repo.contains(char::is_whitespace)) {
            Some(repo) => parents.push(repo.into()),
            None if known.is_empty() => {}
            None => parents.push(Json::Object(known)),
        }
    }
    Ok(parents)
}

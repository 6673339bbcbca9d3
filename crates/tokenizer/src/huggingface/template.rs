//! Chat templates: `chat_template` in tokenizer_config.json, else chat_template.jinja with
//! additional_chat_templates/*.jinja, else chat_template.json.
//!
//! Source: `SpecialVocab._try_load_from_tokenizer_json` in `gguf-py/gguf/vocab.py`,
//! `GGUFWriter.add_chat_template`. The reference lists named templates in the order of a Python set, which
//! changes from run to run, and their folder in file system order; here both are sorted: as listed, and files
//! by name.

use gguf_container::Array;
use serde_json::{Map, Value as Json};

use super::error::VocabError;
use super::hf::{json_object, malformed};
use super::writer::TokenizerWriter;
use crate::{TokenizerFiles, keys};

/// One template, or several with names.
pub(super) enum Templates {
    One(String),
    /// Name and template; `default` is the one without a name.
    Named(Vec<(String, String)>),
}

/// The templates of a checkpoint. The files are read only if tokenizer_config.json has no `chat_template`;
/// null there means no template.
pub(super) fn read(
    writer: &mut TokenizerWriter<'_>,
    config: &Map<String, Json>,
) -> Result<Option<Templates>, VocabError> {
    let value = match config.get("chat_template") {
        Some(value) => value.clone(),
        None => match writer.file("chat_template.jinja") {
            Some(bytes) => return from_files(writer.input, bytes).map(Some),
            None => json_template(writer.input)?.unwrap_or(Json::Null),
        },
    };
    match from_json(&value) {
        Ok(templates) => Ok(templates),
        Err(problem) => {
            writer.note(problem);
            Ok(None)
        }
    }
}

/// Templates of a `chat_template`: a text, or a list of names and texts.
pub(super) fn from_json(value: &Json) -> Result<Option<Templates>, &'static str> {
    match value {
        Json::String(text) => Ok(Some(Templates::One(text.clone()))),
        Json::Array(items) => {
            let named = items.iter().filter_map(|item| {
                let name = item.get("name").and_then(Json::as_str)?;
                let template = item.get("template").and_then(Json::as_str)?;
                Some((name.to_owned(), template.to_owned()))
            });
            Ok(Some(Templates::Named(named.collect())))
        }
        Json::Null => Ok(None),
        _ => Err("`chat_template`: expected a string or a list: omitted"),
    }
}

/// The text of chat_template.json's only key.
fn json_template(input: &TokenizerFiles<'_>) -> Result<Option<Json>, VocabError> {
    Ok(json_object(input, "chat_template.json")?.and_then(|mut object| object.remove("chat_template")))
}

fn from_files(input: &TokenizerFiles<'_>, default: &[u8]) -> Result<Templates, VocabError> {
    let default = text("chat_template.jinja", default)?;
    let mut named = Vec::new();
    for (file, bytes) in input.files {
        let stem =
            file.strip_prefix("additional_chat_templates/").and_then(|file| file.strip_suffix(".jinja"));
        if let Some(name) = stem.filter(|name| !name.contains('/')) {
            named.push((name.to_owned(), text(file, bytes)?));
        }
    }
    if named.is_empty() {
        return Ok(Templates::One(default));
    }
    // By name, with the unnamed one first.
    named.sort();
    named.insert(0, ("default".to_owned(), default));
    Ok(Templates::Named(named))
}

/// A text file with line ends converted like in Python.
fn text(file: &str, bytes: &[u8]) -> Result<String, VocabError> {
    let text = std::str::from_utf8(bytes).map_err(|error| malformed(file, &error))?;
    Ok(text.replace("\r\n", "\n").replace('\r', "\n"))
}

/// Writes templates: named ones first, each under its own key, then the list of names, then the
/// default.
pub(super) fn write_keys(writer: &mut TokenizerWriter<'_>, templates: &Templates) {
    let named = match templates {
        Templates::One(text) => {
            note_if_bad(writer, "chat_template", text);
            return writer.set(keys::CHAT_TEMPLATE, text.as_str());
        }
        Templates::Named(named) => named,
    };
    for (name, text) in named {
        note_if_bad(writer, &format!("chat_template.{name}"), text);
    }
    let mut names: Vec<Vec<u8>> = Vec::new();
    let mut default = None;
    for (name, text) in named {
        // A name becomes a part of a key.
        let name: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        if name == "default" {
            default = Some(text);
        } else if !name.is_empty() {
            writer.set(&format!("{}.{name}", keys::CHAT_TEMPLATE), text.as_str());
            if !names.contains(&name.as_bytes().to_vec()) {
                names.push(name.into_bytes());
            }
        }
    }
    // The reference writes the list after the named templates, and the default last.
    writer.set(keys::CHAT_TEMPLATES, Array::String(names.into()));
    if let Some(default) = default {
        writer.set(keys::CHAT_TEMPLATE, default.as_str());
    }
}

/// The text of chat_template.jinja, if it exists: for families in which it takes precedence.
pub(super) fn jinja_file(input: &TokenizerFiles<'_>) -> Result<Option<String>, VocabError> {
    input.file("chat_template.jinja").map(|bytes| text("chat_template.jinja", bytes)).transpose()
}

/// Notes a template that cannot be parsed. It is kept: llama.cpp recognizes many templates by parts of their
/// text, has some built in by name, and accepts another one as an option.
///
/// minijinja parses this language except for `{% generation %}`, with which transformers marks training
/// targets; those tags are removed first.
pub(super) fn note_if_bad(writer: &mut TokenizerWriter<'_>, place: &str, text: &str) {
    // Mistral's own format states the name of a template that llama.cpp has built in.
    let is_name = !text.contains('{') && !text.contains(char::is_whitespace);
    if is_name {
        return;
    }
    // Copy the text tag by tag, without `{% generation %}` and `{% endgeneration %}`.
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("{%") {
        let Some(len) = rest[start..].find("%}") else { break };
        let tag = &rest[start..start + len + 2];
        let word = tag.trim_matches(|c: char| "{}%-+".contains(c) || c.is_whitespace());
        plain.push_str(&rest[..start]);
        if !["generation", "endgeneration"].contains(&word) {
            plain.push_str(tag);
        }
        rest = &rest[start + len + 2..];
    }
    plain.push_str(rest);
    if let Err(error) = minijinja::Environment::new().template_from_str(&plain) {
        let line = error.line().map_or(String::new(), |line| format!(" (line {line})"));
        let detail = error.detail().map_or_else(|| error.kind().to_string(), str::to_owned);
        writer.note(format!("`{place}` is not a valid Jinja template: {detail}{line}; it is kept unchanged"));
    }
}

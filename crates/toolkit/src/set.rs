//! Sets metadata of a GGUF file.

use std::path::PathBuf;

use gguf_container::{Metadata, Value};

use crate::{
    edit::{EditOptions, Edited, edit},
    error::Error,
    events::Events,
    metadata_json::{is_type, of_json, type_of, value_of},
    text_file,
};

/// The key by which llama.cpp knows how to cut text.
const PRE: &str = "tokenizer.ggml.pre";

/// Keys and values to set.
#[derive(Debug, Clone, Default)]
pub struct SetOptions {
    /// `KEY=TYPE:VALUE`; existing and known keys need no type, and `@FILE` stands for the contents of a file.
    pub values: Vec<String>,
    /// JSON file in the format of `export-metadata`, whose keys are all set.
    pub from: Option<PathBuf>,
    /// File with the chat template.
    pub chat_template: Option<PathBuf>,
}

/// Sets metadata keys of a GGUF file.
///
/// # Errors
/// As [`edit`]; a value that is not of its type.
pub fn set(set: &SetOptions, options: &EditOptions, events: &dyn Events) -> Result<Edited, Error> {
    let says_something = !set.values.is_empty() || set.from.is_some() || set.chat_template.is_some();
    if !says_something && options.header_slack.is_none() {
        return Err(Error::usage(
            "nothing to set: expected KEY=TYPE:VALUE, --from, --chat-template or --header-slack",
        ));
    }
    edit(options, events, |metadata| {
        let pre_before = metadata.get(PRE).cloned();
        if let Some(path) = &set.from {
            let text = text_file::options(path)?.into_bytes();
            let json = serde_json::from_slice(&text).map_err(|error| Error::at(path, error))?;
            metadata.extend(of_json(&json).map_err(|problem| Error::at(path, problem))?);
        }
        for text in &set.values {
            let (key, value) = parse(text, metadata)?;
            metadata.set(key, value);
        }
        if let Some(path) = &set.chat_template {
            metadata.set("tokenizer.chat_template", Value::String(text_file::options(path)?.into_bytes()));
        }
        let pre = metadata.get(PRE).filter(|pre| pre_before.as_ref() != Some(pre)).and_then(Value::as_str);
        if let Some(pre) = pre.filter(|pre| !gguf_models::vocab::pre_names().any(|known| known == *pre)) {
            events.warning(&format!("`{PRE}`: llama.cpp does not support the pre-tokenizer `{pre}`"));
        }
        Ok(())
    })
}

/// The type of a new key: that of the specification, or the one that llama.cpp reads.
fn known_type(key: &str, metadata: &Metadata) -> Option<&'static str> {
    let architecture = metadata.get("general.architecture").and_then(Value::as_str);
    gguf_container::specified_type(key).or_else(|| gguf_models::loader::key_type(architecture?, key))
}

/// Example of a value for a new key.
fn example(key: &str, value: &str, kind: Option<&str>) -> String {
    let item = kind.and_then(|kind| kind.strip_prefix("arr[")?.strip_suffix(']'));
    match item {
        Some("str") => format!("{key}='arr[str]:[{}]'", serde_json::Value::from(value)),
        Some(item) => format!("{key}='arr[{item}]:[1, 2]'"),
        None => format!("{key}={}:VALUE", kind.unwrap_or("str")),
    }
}

/// Parses `KEY=TYPE:VALUE`, or `KEY=VALUE` for an existing key.
fn parse(text: &str, metadata: &Metadata) -> Result<(String, Value), Error> {
    let wrong = |problem: String| Error::usage(format_args!("`{text}`: {problem}"));
    let Some((key, typed)) = text.split_once('=').filter(|(key, _)| !key.is_empty()) else {
        return Err(wrong("expected KEY=TYPE:VALUE".to_owned()));
    };
    // A text may hold a colon: only the name of a type before the first one is a type.
    let stated = typed.split_once(':').filter(|(kind, _)| is_type(kind));
    let (kind, value) = match (stated, metadata.get(key)) {
        (Some((kind, value)), _) => (kind.to_owned(), value),
        (None, Some(old)) => (type_of(old), typed),
        // A known type may be omitted, unless the key is a list and the value is not.
        (None, None) => match known_type(key, metadata) {
            Some(kind) if !kind.starts_with("arr[") || typed.starts_with(['[', '@']) => {
                (kind.to_owned(), typed)
            }
            Some(kind) => {
                return Err(wrong(format!("`{key}` is a list: use {}", example(key, typed, Some(kind)))));
            }
            None => {
                let example = example(key, typed, None);
                return Err(wrong(format!("`{key}` is a new key: specify its type, for example {example}")));
            }
        },
    };
    let content = match value.strip_prefix('@') {
        Some(path) => Some(text_file::options(path.as_ref())?.into_bytes()),
        None => None,
    };
    if kind == "str" {
        return Ok((key.to_owned(), Value::String(content.unwrap_or_else(|| value.as_bytes().to_vec()))));
    }
    let value = content
        .map_or_else(|| value.to_owned(), |content| String::from_utf8_lossy(&content).trim().to_owned());
    // Numbers that JSON spells otherwise or not at all.
    let json = match (kind.as_str(), value.parse::<f64>()) {
        ("f32" | "f64", Ok(number)) if !number.is_finite() => serde_json::Value::from(match number {
            number if number.is_nan() => "NaN",
            f64::INFINITY => "Infinity",
            _ => "-Infinity",
        }),
        // The nearest f32 of the text itself, not of the nearest f64.
        ("f32", Ok(_)) => return Ok((key.to_owned(), Value::F32(value.parse().unwrap_or_default()))),
        ("f64", Ok(number)) => return Ok((key.to_owned(), Value::F64(number))),
        _ => serde_json::from_str(&value).map_err(|_| wrong(format!("`{value}` is not a valid {kind}")))?,
    };
    let value = value_of(&kind, &json).map_err(wrong)?;
    Ok((key.to_owned(), value))
}

#[cfg(test)]
mod tests {
    use gguf_container::Array;

    use super::*;

    #[test]
    fn values_of_every_kind_are_parsed() {
        let metadata = Metadata::from([("old".to_owned(), Value::I16(1)), ("text".to_owned(), "x".into())]);
        for (text, key, value) in [
            ("a=u8:200", "a", Value::U8(200)),
            ("old=-7", "old", Value::I16(-7)),
            ("old=str:7", "old", "7".into()),
            ("text=https://x", "text", "https://x".into()),
            ("a=str:str:x=y", "a", "str:x=y".into()),
            ("a=f32:0.1", "a", Value::F32(0.1)),
            ("a=f64:-inf", "a", Value::F64(f64::NEG_INFINITY)),
            ("a=bool:true", "a", Value::Bool(true)),
            ("a=arr[i32]:[1, -2]", "a", Value::Array(Array::I32(vec![1, -2]))),
            ("a=str:", "a", "".into()),
        ] {
            assert_eq!(parse(text, &metadata).unwrap(), (key.to_owned(), value), "{text}");
        }
        for text in ["a", "=x", "a=x", "a=u8:256", "a=bool:1", "old=x", "a=arr[u8]:1"] {
            assert!(parse(text, &metadata).is_err(), "{text}");
        }
    }
}

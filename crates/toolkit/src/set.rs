//! Values of metadata keys as callers state them: `KEY=TYPE:VALUE`, or JSON with or without a type.

use gguf_container::{Array, Metadata, Value};
use serde_json::Value as Json;

use crate::{
    error::Error,
    metadata_json::{is_type, type_of, value_of},
    text_file,
};

/// The type of a new key: the type of the specification, or the one that llama.cpp reads.
fn known_type(key: &str, metadata: &Metadata) -> Option<&'static str> {
    let architecture = metadata.get("general.architecture").and_then(Value::as_str);
    gguf_container::specified_type(key)
        .or_else(|| gguf_layout::loader::KeyTypes::of(&gguf_models::FAMILIES, architecture?)?.get(key))
}

/// The value of a key in JSON: `{"type": TYPE, "value": VALUE}`, or a plain value of the key's type.
///
/// A new key of an unknown type gets `bool`, `i32`, `f32` or `str`, as gguf-py's `GGUFValueType.get_type` chooses.
///
/// # Errors
/// A value that is not of its type; a new key whose type is not stated and does not follow from the form.
pub(crate) fn typed(key: &str, json: &Json, metadata: &Metadata) -> Result<Value, String> {
    let wrong = |problem: String| format!("key `{key}`: {problem}");
    let object = json.as_object();
    let stated = object.and_then(|object| object.get("type")?.as_str().zip(object.get("value")));
    let (kind, value) = match (stated, metadata.get(key)) {
        (Some((kind, value)), _) => (kind.to_owned(), value),
        (None, Some(old)) => (type_of(old), json),
        (None, None) => match known_type(key, metadata) {
            Some(kind) => (kind.to_owned(), json),
            None => (type_by_form(json).ok_or_else(|| wrong("missing type".to_owned()))?, json),
        },
    };
    value_of(&kind, value).map_err(wrong)
}

fn type_by_form(json: &Json) -> Option<String> {
    Some(match json {
        Json::Bool(_) => "bool".to_owned(),
        Json::Number(number) if number.is_f64() => "f32".to_owned(),
        Json::Number(_) => "i32".to_owned(),
        Json::String(_) => "str".to_owned(),
        Json::Array(items) => {
            let item = type_by_form(items.first()?)?;
            // The items of nested arrays state their types.
            (!item.starts_with("arr")).then(|| format!("arr[{item}]"))?
        }
        Json::Null | Json::Object(_) => return None,
    })
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

/// Parses `KEY=TYPE:VALUE`, or `KEY=VALUE` for an existing key. The value of a key such as `tokenizer.ggml.eos_token_id` may be the text
/// of a token.
pub(crate) fn assignment(text: &str, metadata: &Metadata) -> Result<(String, Value), Error> {
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
    // The id of a token by its text.
    if kind == "u32" && key.ends_with("_token_id") && value.parse::<u32>().is_err() {
        let Some(Value::Array(Array::String(tokens))) = metadata.get(gguf_tokenizer::keys::TOKENS) else {
            return Err(wrong(format!("`{value}` is not a valid u32")));
        };
        let id = tokens.iter().position(|token| token == value.as_bytes());
        let id = id.and_then(|id| u32::try_from(id).ok());
        let id =
            id.ok_or_else(|| wrong(format!("expected a u32 or the text of a token, found `{value}`")))?;
        return Ok((key.to_owned(), Value::U32(id)));
    }
    let value = content
        .map_or_else(|| value.to_owned(), |content| String::from_utf8_lossy(&content).trim().to_owned());
    // Numbers that JSON spells differently or not at all.
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
    use serde_json::json;

    use super::*;

    #[test]
    fn values_of_every_kind_are_parsed() {
        let metadata = Metadata::from([
            ("old".to_owned(), Value::I16(1)),
            ("text".to_owned(), "x".into()),
            ("tokenizer.ggml.tokens".to_owned(), vec!["<s>", "</s>"].into()),
        ]);
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
            ("tokenizer.ggml.eos_token_id=</s>", "tokenizer.ggml.eos_token_id", Value::U32(1)),
        ] {
            assert_eq!(assignment(text, &metadata).unwrap(), (key.to_owned(), value), "{text}");
        }
        for text in [
            "a",
            "=x",
            "a=x",
            "a=u8:256",
            "a=bool:1",
            "old=x",
            "a=arr[u8]:1",
            "tokenizer.ggml.eos_token_id=x",
        ] {
            assert!(assignment(text, &metadata).is_err(), "{text}");
        }
    }

    #[test]
    fn json_values_take_known_types() {
        let metadata = Metadata::from([
            ("general.architecture".to_owned(), "llama".into()),
            ("old".to_owned(), Value::I16(1)),
        ]);
        let read = |key, json| typed(key, &json, &metadata);
        assert_eq!(read("old", json!(7)), Ok(Value::I16(7)));
        assert_eq!(read("old", json!({"type": "u8", "value": 7})), Ok(Value::U8(7)));
        assert_eq!(read("llama.context_length", json!(32768)), Ok(Value::U32(32768)));
        assert_eq!(read("new", json!(7)), Ok(Value::I32(7)));
        assert_eq!(read("new", json!(0.5)), Ok(Value::F32(0.5)));
        assert_eq!(read("new", json!([true])), Ok(Value::Array(Array::Bool(vec![true]))));
        assert_eq!(read("old", json!("x")), Err("key `old`: \"x\" is not a valid i16".to_owned()));
        assert_eq!(read("new", json!([])), Err("key `new`: missing type".to_owned()));
        assert_eq!(read("new", json!(null)), Err("key `new`: missing type".to_owned()));
    }
}

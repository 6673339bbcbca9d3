//! Types of the keys in the specification.

use crate::{Array, Value};

/// Keys of any model, with the names of their types. `{id}` is a number.
///
/// Source: "GGUF v3 specification", "Standardized key-value pairs"; which lacks `general.sampling` and later
/// rows.
const TYPES: &[(&str, &str)] = &[
    ("general.architecture", "str"),
    ("general.quantization_version", "u32"),
    ("general.alignment", "u32"),
    ("general.name", "str"),
    ("general.author", "str"),
    ("general.version", "str"),
    ("general.organization", "str"),
    ("general.basename", "str"),
    ("general.finetune", "str"),
    ("general.description", "str"),
    ("general.quantized_by", "str"),
    ("general.size_label", "str"),
    ("general.license", "str"),
    ("general.license.name", "str"),
    ("general.license.link", "str"),
    ("general.url", "str"),
    ("general.doi", "str"),
    ("general.uuid", "str"),
    ("general.repo_url", "str"),
    ("general.tags", "arr[str]"),
    ("general.languages", "arr[str]"),
    ("general.datasets", "arr[str]"),
    ("general.file_type", "u32"),
    ("general.source.url", "str"),
    ("general.source.doi", "str"),
    ("general.source.uuid", "str"),
    ("general.source.repo_url", "str"),
    ("general.base_model.count", "u32"),
    ("general.base_model.{id}.name", "str"),
    ("general.base_model.{id}.author", "str"),
    ("general.base_model.{id}.version", "str"),
    ("general.base_model.{id}.organization", "str"),
    ("general.base_model.{id}.url", "str"),
    ("general.base_model.{id}.doi", "str"),
    ("general.base_model.{id}.uuid", "str"),
    ("general.base_model.{id}.repo_url", "str"),
    ("tokenizer.ggml.model", "str"),
    ("tokenizer.ggml.tokens", "arr[str]"),
    ("tokenizer.ggml.scores", "arr[f32]"),
    ("tokenizer.ggml.token_type", "arr[i32]"),
    ("tokenizer.ggml.merges", "arr[str]"),
    ("tokenizer.ggml.added_tokens", "arr[str]"),
    ("tokenizer.ggml.bos_token_id", "u32"),
    ("tokenizer.ggml.eos_token_id", "u32"),
    ("tokenizer.ggml.unknown_token_id", "u32"),
    ("tokenizer.ggml.separator_token_id", "u32"),
    ("tokenizer.ggml.padding_token_id", "u32"),
    ("tokenizer.huggingface.json", "str"),
    ("tokenizer.rwkv.world", "str"),
    ("tokenizer.chat_template", "str"),
];

/// Name of a key's type in the specification (`u32`, `arr[str]`). `None` for keys that are not specified and
/// for keys of an architecture.
///
/// ```
/// assert_eq!(gguf_container::specified_type("general.tags"), Some("arr[str]"));
/// assert_eq!(gguf_container::specified_type("general.base_model.0.name"), Some("str"));
/// assert_eq!(gguf_container::specified_type("my.key"), None);
/// ```
pub fn specified_type(key: &str) -> Option<&'static str> {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let fits = |pattern: &str| {
        let (mut parts, mut found) = (pattern.split('.'), key.split('.'));
        loop {
            match (parts.next(), found.next()) {
                (None, None) => return true,
                (Some("{id}"), Some(part)) if is_number(part) => {}
                (Some(expected), Some(part)) if expected == part => {}
                _ => return false,
            }
        }
    };
    TYPES.iter().find(|(pattern, _)| fits(pattern)).map(|(_, kind)| *kind)
}

/// True if a value can be read as the named type: readers accept integers of every width, and an empty list
/// for every list.
pub fn is_of_type(value: &Value, kind: &str) -> bool {
    let is_integer = |id: u32| matches!(id, 0..=5 | 10 | 11);
    let fits = |id: u32, name: &str| match name {
        "str" => id == 8,
        "bool" => id == 7,
        "f32" | "f64" => matches!(id, 6 | 12),
        _ => is_integer(id),
    };
    let item = kind.strip_prefix("arr[").and_then(|kind| kind.strip_suffix(']'));
    match (value, item) {
        (Value::Array(list), Some(item)) => Array::is_empty(list) || fits(list.item_type_id(), item),
        (Value::Array(_), None) | (_, Some(_)) => false,
        (value, None) => fits(value.type_id(), kind),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_and_lists_match_specification() {
        assert!(is_of_type(&Value::I8(1), "u32"));
        assert!(is_of_type(&Value::U64(1), "u32"));
        assert!(is_of_type(&Value::F64(1.0), "f32"));
        assert!(is_of_type(&Value::Array(Array::U8(vec![])), "arr[str]"));
        assert!(is_of_type(&Value::Array(Array::U32(vec![1])), "arr[i32]"));
        assert!(!is_of_type(&Value::Bool(true), "u32"));
        assert!(!is_of_type(&"chat".into(), "arr[str]"));
        assert!(!is_of_type(&Value::Array(Array::U32(vec![1])), "arr[str]"));
        assert!(!is_of_type(&Value::Array(Array::F32(vec![1.0])), "f32"));
    }
}

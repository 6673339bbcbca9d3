//! JSON values with Python's semantics.

use serde_json::Value as Json;

/// Python's truth value, by which the reference and transformers test for a key: null, false, 0 and empty
/// values are false.
pub fn is_truthy(value: &Json) -> bool {
    match value {
        Json::Null => false,
        Json::Bool(value) => *value,
        Json::Number(number) => number.as_f64() != Some(0.0),
        Json::String(text) => !text.is_empty(),
        Json::Array(items) => !items.is_empty(),
        Json::Object(items) => !items.is_empty(),
    }
}

/// The list under a key of an object, or an empty list.
pub fn list<'a>(object: &'a Json, key: &str) -> &'a [Json] {
    object.get(key).and_then(Json::as_array).map_or(&[], Vec::as_slice)
}

/// JSON in transformers' format: two spaces, one line feed at the end.
pub fn pretty(value: &Json) -> Vec<u8> {
    let mut text = format!("{value:#}").into_bytes();
    text.push(b'\n');
    text
}

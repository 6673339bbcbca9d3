//! Lossless conversion of metadata to JSON and back: `{"KEY": {"type": "u32", "value": 1}}`.
//!
//! Numbers that JSON lacks are the strings `NaN`, `Infinity` and `-Infinity`; bytes that are not UTF-8 are
//! `{"bytes": [...]}`. The type of an array names that of its items, as in `arr[str]`. Nested arrays each
//! have their own type.

use gguf_container::{Array, Metadata, Strings, Value, type_name};
use serde::{Serialize, Serializer};
use serde_json::{Map, Number, Value as Json, json};

use crate::text::printable;

/// Metadata in the order of the file.
pub fn to_json(metadata: &Metadata) -> Json {
    let entries = metadata.iter().map(|(key, value)| (key.clone(), entry(value)));
    Json::Object(entries.collect())
}

/// One value with its type.
pub fn entry(value: &Value) -> Json {
    json!({"type": type_of(value), "value": value_json(value)})
}

/// Serializes a value that may be absent with its type, like [`entry`].
pub(crate) fn entry_or_null<S: Serializer>(value: &Option<Value>, serializer: S) -> Result<S::Ok, S::Error> {
    value.as_ref().map(entry).serialize(serializer)
}

/// Keys of two files with the values of both, in the order of the first; `None` on the side that does not have the key.
pub fn side_by_side<'a>(a: &'a Metadata, b: &'a Metadata) -> impl Iterator<Item = Sides<'a>> {
    let of_a = a.iter().map(|(key, value)| (key.as_str(), Some(value), b.get(key)));
    let only_b = b.iter().filter(|(key, _)| !a.contains(key));
    of_a.chain(only_b.map(|(key, value)| (key.as_str(), None, Some(value))))
}

/// True for a key with the same value in both files.
pub fn is_same(a: Option<&Value>, b: Option<&Value>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => a.is_same(b),
        (a, b) => a.is_none() && b.is_none(),
    }
}

/// A key with its values in two files.
pub type Sides<'a> = (&'a str, Option<&'a Value>, Option<&'a Value>);

/// Characters of a value on one line.
pub const SHOWN_CHARS: usize = 80;

/// A value on one line of a listing.
pub fn short(value: &Value) -> String {
    let text = match value {
        Value::Array(array) => format!("[{} items]", array.len()),
        value => value.to_string(),
    };
    let shown: String = text.chars().take(SHOWN_CHARS).collect();
    let dots = if shown.len() < text.len() { "..." } else { "" };
    printable(&format!("{shown}{dots}"))
}

/// The type of a value, as `show` names it.
pub fn type_of(value: &Value) -> String {
    match value {
        Value::Array(array) => type_of_array(array),
        value => type_name(value.type_id()).unwrap_or("?").to_owned(),
    }
}

fn type_of_array(array: &Array) -> String {
    format!("arr[{}]", type_name(array.item_type_id()).unwrap_or("?"))
}

fn f64_json(value: f64) -> Json {
    Number::from_f64(value).map_or_else(|| Json::from(nonfinite(value)), Json::Number)
}

fn nonfinite(value: f64) -> &'static str {
    match value {
        value if value.is_nan() => "NaN",
        value if value > 0.0 => "Infinity",
        _ => "-Infinity",
    }
}

/// With the digits that 32 bits need, if they are read back as the same number.
fn f32_json(value: f32) -> Json {
    let short = value.to_string().parse::<f64>().ok().filter(|short| *short as f32 == value);
    f64_json(short.unwrap_or(value.into()))
}

fn text_json(bytes: &[u8]) -> Json {
    match std::str::from_utf8(bytes) {
        Ok(text) => Json::from(text),
        Err(_) => json!({ "bytes": bytes }),
    }
}

fn value_json(value: &Value) -> Json {
    match value {
        Value::U8(v) => json!(v),
        Value::I8(v) => json!(v),
        Value::U16(v) => json!(v),
        Value::I16(v) => json!(v),
        Value::U32(v) => json!(v),
        Value::I32(v) => json!(v),
        Value::F32(v) => f32_json(*v),
        Value::Bool(v) => json!(v),
        Value::String(v) => text_json(v),
        Value::Array(v) => array_json(v),
        Value::U64(v) => json!(v),
        Value::I64(v) => json!(v),
        Value::F64(v) => f64_json(*v),
        other => json!(other.to_string()),
    }
}

fn array_json(array: &Array) -> Json {
    match array {
        Array::U8(v) => json!(v),
        Array::I8(v) => json!(v),
        Array::U16(v) => json!(v),
        Array::I16(v) => json!(v),
        Array::U32(v) => json!(v),
        Array::I32(v) => json!(v),
        Array::F32(v) => v.iter().map(|item| f32_json(*item)).collect(),
        Array::Bool(v) => json!(v),
        Array::String(v) => v.iter().map(text_json).collect(),
        Array::Array(v) => {
            v.iter().map(|item| json!({"type": type_of_array(item), "value": array_json(item)})).collect()
        }
        Array::U64(v) => json!(v),
        Array::I64(v) => json!(v),
        Array::F64(v) => v.iter().map(|item| f64_json(*item)).collect(),
        other => json!(other.len()),
    }
}

/// Metadata of a JSON object.
///
/// # Errors
/// A key of another form.
pub fn of_json(json: &Json) -> Result<Metadata, String> {
    let object = json.as_object().ok_or("expected an object with metadata keys")?;
    let entry = |(key, entry): (&String, &Json)| {
        value_of_entry(entry)
            .map(|value| (key.clone(), value))
            .map_err(|problem| format!("key `{key}`: {problem}"))
    };
    object.iter().map(entry).collect()
}

fn value_of_entry(entry: &Json) -> Result<Value, String> {
    let field = |name: &str| entry.as_object().and_then(|object: &Map<String, Json>| object.get(name));
    let (Some(Json::String(kind)), Some(value)) = (field("type"), field("value")) else {
        return Err("expected {\"type\": TYPE, \"value\": VALUE}".to_owned());
    };
    value_of(kind, value)
}

/// True for the name of a type: `u32`, `str`, `arr[f32]`.
pub fn is_type(name: &str) -> bool {
    let plain = |name: &str| (0..13).any(|id| type_name(id) == Some(name));
    match item_type(name) {
        Some(item) => plain(item),
        None => plain(name) && name != "arr",
    }
}

fn item_type(name: &str) -> Option<&str> {
    name.strip_prefix("arr[")?.strip_suffix(']')
}

/// The value of a type that JSON states.
///
/// # Errors
/// A value of another type.
pub fn value_of(kind: &str, json: &Json) -> Result<Value, String> {
    if let Some(item) = item_type(kind) {
        return array_of(item, json).map(Value::Array);
    }
    let wrong = || format!("{} is not a valid {kind}", shortened(json));
    Ok(match kind {
        "u8" => Value::U8(integer(json).ok_or_else(wrong)?),
        "i8" => Value::I8(integer(json).ok_or_else(wrong)?),
        "u16" => Value::U16(integer(json).ok_or_else(wrong)?),
        "i16" => Value::I16(integer(json).ok_or_else(wrong)?),
        "u32" => Value::U32(integer(json).ok_or_else(wrong)?),
        "i32" => Value::I32(integer(json).ok_or_else(wrong)?),
        "u64" => Value::U64(integer(json).ok_or_else(wrong)?),
        "i64" => Value::I64(integer(json).ok_or_else(wrong)?),
        "f32" => Value::F32(float(json).ok_or_else(wrong)? as f32),
        "f64" => Value::F64(float(json).ok_or_else(wrong)?),
        "bool" => Value::Bool(json.as_bool().ok_or_else(wrong)?),
        "str" => Value::String(text(json).ok_or_else(wrong)?),
        _ => return Err(format!("unknown type `{kind}`")),
    })
}

fn shortened(json: &Json) -> String {
    let text = json.to_string();
    match text.char_indices().nth(40) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text,
    }
}

fn integer<T: TryFrom<i128>>(json: &Json) -> Option<T> {
    let number = json.as_i64().map(i128::from).or(json.as_u64().map(i128::from))?;
    T::try_from(number).ok()
}

fn float(json: &Json) -> Option<f64> {
    match json {
        Json::String(text) => match text.as_str() {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        json => json.as_f64(),
    }
}

fn text(json: &Json) -> Option<Vec<u8>> {
    match json {
        Json::String(text) => Some(text.clone().into_bytes()),
        json => json.get("bytes")?.as_array()?.iter().map(integer::<u8>).collect(),
    }
}

fn array_of(item: &str, json: &Json) -> Result<Array, String> {
    let items = json.as_array().ok_or_else(|| format!("expected a list, found {}", shortened(json)))?;
    fn all<T>(items: &[Json], kind: &str, read: impl Fn(&Json) -> Option<T>) -> Result<Vec<T>, String> {
        let read = |json| read(json).ok_or_else(|| format!("{} is not a valid {kind}", shortened(json)));
        items.iter().map(read).collect()
    }
    Ok(match item {
        "u8" => Array::U8(all(items, item, integer)?),
        "i8" => Array::I8(all(items, item, integer)?),
        "u16" => Array::U16(all(items, item, integer)?),
        "i16" => Array::I16(all(items, item, integer)?),
        "u32" => Array::U32(all(items, item, integer)?),
        "i32" => Array::I32(all(items, item, integer)?),
        "u64" => Array::U64(all(items, item, integer)?),
        "i64" => Array::I64(all(items, item, integer)?),
        "f32" => Array::F32(all(items, item, |json| float(json).map(|number| number as f32))?),
        "f64" => Array::F64(all(items, item, float)?),
        "bool" => Array::Bool(all(items, item, Json::as_bool)?),
        "str" => Array::String(all(items, item, text)?.into_iter().collect::<Strings>()),
        "arr" => {
            let inner = |entry: &Json| match value_of_entry(entry)? {
                Value::Array(array) => Ok(array),
                _ => Err("an item of arr[arr] is not an array".to_owned()),
            };
            Array::Array(items.iter().map(inner).collect::<Result<_, String>>()?)
        }
        _ => return Err(format!("unknown type `{item}`")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_round_trips() {
        let nested = Array::Array(vec![
            Array::U8(vec![1, 255]),
            Array::Array(vec![Array::String(vec!["a", ""].into()), Array::F32(vec![])]),
        ]);
        let metadata = Metadata::from([
            ("a".to_owned(), Value::U64(u64::MAX)),
            ("b".to_owned(), Value::I64(i64::MIN)),
            ("c".to_owned(), Value::F32(0.1)),
            ("d".to_owned(), Value::F32(f32::from_bits(1))),
            ("e".to_owned(), Value::F64(-1e-300)),
            ("f".to_owned(), Value::F32(f32::NEG_INFINITY)),
            ("g".to_owned(), Value::String(vec![b'x', 0, 0xff])),
            ("h".to_owned(), Value::Array(nested)),
            ("i".to_owned(), Value::Array(Array::String(vec![vec![0xc3], b"tea".to_vec()].into()))),
            ("j".to_owned(), Value::Bool(true)),
            ("k".to_owned(), Value::I8(-128)),
            ("l".to_owned(), Value::Array(Array::F64(vec![0.1, f64::INFINITY]))),
        ]);
        let text = serde_json::to_string(&to_json(&metadata)).unwrap();
        assert_eq!(of_json(&serde_json::from_str(&text).unwrap()), Ok(metadata));
        assert!(text.contains(r#"{"type":"f32","value":0.1}"#), "{text}");
    }

    #[test]
    fn mismatched_values_are_named() {
        let read = |text: &str| of_json(&serde_json::from_str(text).unwrap()).unwrap_err();
        assert_eq!(read("[]"), "expected an object with metadata keys");
        assert_eq!(read(r#"{"a": 1}"#), "key `a`: expected {\"type\": TYPE, \"value\": VALUE}");
        assert_eq!(read(r#"{"a": {"type": "u8", "value": 256}}"#), "key `a`: 256 is not a valid u8");
        assert_eq!(read(r#"{"a": {"type": "u9", "value": 2}}"#), "key `a`: unknown type `u9`");
        assert_eq!(
            read(r#"{"a": {"type": "arr[i8]", "value": [1, "x"]}}"#),
            "key `a`: \"x\" is not a valid i8"
        );
        assert!(is_type("arr[str]") && is_type("f64") && !is_type("arr") && !is_type("https"));
    }
}

//! JSON values as Python code sees them.

use serde_json::Value as Json;

/// Python's truth of a value, by which the reference and transformers decide whether something is
/// there: null, false, 0 and everything empty are not.
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

/// The list under a key of an object; an empty one if there is none.
pub fn list<'a>(object: &'a Json, key: &str) -> &'a [Json] {
    object.get(key).and_then(Json::as_array).map_or(&[], Vec::as_slice)
}

/// The config of the text part of a model of several kinds, under whichever of its names it stands. Where there are
/// several, the last of these counts.
///
/// Source: `ModelBase.load_hparams` in `conversion/base.py`.
pub fn text_config(config: &Json) -> Option<&Json> {
    let sub = |key: &str| config.get(key).filter(|value| value.is_object());
    // LFM2-Audio; DeepSeek-OCR; Qwen2.5-Omni; GLM-ASR; InternVL; all others.
    let thinker = || sub("thinker_config")?.get("text_config").filter(|value| value.is_object());
    sub("lfm")
        .or_else(|| sub("language_config"))
        .or_else(thinker)
        .or_else(|| sub("lm_config"))
        .or_else(|| sub("llm_config"))
        .or_else(|| sub("text_config"))
}

/// The value of a key of a model's text part, which is the whole where it has no other.
pub fn text_key<'a>(config: &'a Json, key: &str) -> Option<&'a Json> {
    let text_value = text_config(config).and_then(|text| text.get(key));
    text_value.or_else(|| config.get(key)).filter(|value| !value.is_null())
}

/// The first class in `architectures`. A single name instead of a list, as some programs write it, counts as
/// a list of one.
pub fn first_class(config: &Json) -> Option<&str> {
    let classes = config.get("architectures")?;
    if classes.is_string() { classes.as_str() } else { classes.get(0)?.as_str() }
}

/// JSON as transformers writes it: two spaces, one line feed at the end.
pub fn pretty(value: &Json) -> Vec<u8> {
    let mut text = format!("{value:#}").into_bytes();
    text.push(b'\n');
    text
}

//! The text part of a config, and the class of a model.

use serde_json::Value as Json;

/// Config of the text part of a multimodal model. Its key differs between models; if a config has several of the
/// keys, the first one below counts.
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

/// Value of a key in the text part of a config, or in the entire config if the text part lacks it.
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

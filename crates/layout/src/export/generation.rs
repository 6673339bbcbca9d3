//! generation_config.json.
//!
//! Inverse of what the reference reads from generation_config.json: `general.sampling.*` and the ends of a text.

use gguf_container::{Array, Metadata};
use serde_json::{Map, Value as Json};

use super::error::ExportError;
use super::layout::{decimal, text};
use gguf_tokenizer::huggingface::Route;
use gguf_tokenizer::keys as token_keys;

/// generation_config.json: stop tokens, and sampling parameters if the file has them.
pub fn config(metadata: &Metadata, route: Route) -> Result<Json, ExportError> {
    let id = |of: &str| metadata.count(&token_keys::special_id(of));
    let mut config = Map::new();
    let mut set = |key: &str, value: Json| config.insert(key.to_owned(), value);
    set("_from_model_config", true.into());
    if let Some(bos) = id("bos")? {
        set("bos_token_id", bos.into());
    }
    // A chat ends with the end of a turn as well; transformers takes a list of ends.
    let mut ends: Vec<u64> = Vec::new();
    // Hunyuan's converter takes the first of several for the end of a turn.
    let order = if route.turn_end_first { ["eot", "eos", "eom"] } else { ["eos", "eot", "eom"] };
    for of in order {
        ends.extend(id(of)?.filter(|end| !ends.contains(end)));
    }
    match ends[..] {
        [] => {}
        [end] => drop(set("eos_token_id", end.into())),
        _ => drop(set("eos_token_id", ends.into())),
    }
    if let Some(pad) = id("padding")? {
        set("pad_token_id", pad.into());
    }
    if let Some(Array::I32(ids)) =
        metadata.get(token_keys::SUPPRESS_TOKENS).and_then(|value| value.as_array())
    {
        set("suppress_tokens", ids.clone().into());
    }
    // Sampling settings count only where `do_sample` is on. Numbers of either sign are in files as i32.
    for (key, of) in [("top_k", "top_k"), ("penalty_last_n", "penalty_last_n"), ("mirostat", "mirostat")] {
        if let Some(value) =
            metadata.get(&format!("general.sampling.{of}")).and_then(|v| v.to_string().parse::<i64>().ok())
        {
            set(key, value.into());
            set("do_sample", true.into());
        }
    }
    for (key, of) in [
        ("top_p", "top_p"),
        ("min_p", "min_p"),
        ("temperature", "temp"),
        ("repetition_penalty", "penalty_repeat"),
        ("xtc_probability", "xtc_probability"),
        ("xtc_threshold", "xtc_threshold"),
        ("mirostat_tau", "mirostat_tau"),
        ("mirostat_eta", "mirostat_eta"),
    ] {
        if let Some(value) = decimal(metadata, &format!("general.sampling.{of}"))? {
            set(key, value.into());
            set("do_sample", true.into());
        }
    }
    if let Some(sequence) = text(metadata, "general.sampling.sequence")? {
        set("sequence", sequence.into());
    }
    Ok(Json::Object(config))
}

//! How the vectors of a text's tokens become one: what sentence-transformers says in `modules.json`
//! and in the config of its pooling module.
//!
//! Source: `TextModel._try_set_pooling_type` in `conversion/base.py` of llama.cpp, as vendored in
//! llama-cpp-python 0.3.36.

use gguf::Value;
use serde_json::Value as Json;

use crate::config::{Hparams, bad, bad_in};
use crate::keys::Keys;
use crate::{ArchError, Input};

const FILE: &str = "modules.json";
/// Numbers of `PoolingType` in `gguf-py/gguf/constants.py`.
const MEAN: u32 = 1;
const CLS: u32 = 2;
const LAST: u32 = 3;

/// The number of `pooling_type`, where a pooling module is named.
///
/// # Errors
///
/// [`ArchError::BadKey`] for a module whose config is not there, or that pools in another way.
pub fn read(input: &Input<'_>) -> Result<Option<u32>, ArchError> {
    let parse = |bytes: &[u8]| serde_json::from_slice::<Json>(bytes).unwrap_or_default();
    let Some(modules) = input.file(FILE).map(parse) else { return Ok(None) };
    let module = modules.as_array().and_then(|modules| {
        modules.iter().find(|module| {
            module.get("type").and_then(Json::as_str).is_some_and(|kind| kind.ends_with("Pooling"))
        })
    });
    let Some(module) = module else { return Ok(None) };
    let path = module.get("path").and_then(Json::as_str).unwrap_or_default();
    let config = input.file(&format!("{path}/config.json")).map(parse);
    let config = config.ok_or_else(|| bad_in(FILE, "path", &path.into(), "a folder with a config.json"))?;
    let is_true = |key: &str| config.get(key) == Some(&Json::Bool(true));
    let mode = config.get("pooling_mode").and_then(Json::as_str);
    match mode {
        _ if is_true("pooling_mode_mean_tokens") => Ok(Some(MEAN)),
        _ if is_true("pooling_mode_cls_token") => Ok(Some(CLS)),
        _ if is_true("pooling_mode_lasttoken") => Ok(Some(LAST)),
        Some("mean") => Ok(Some(MEAN)),
        Some("cls") => Ok(Some(CLS)),
        Some("lasttoken") => Ok(Some(LAST)),
        _ => Err(bad_in(
            FILE,
            "path",
            &path.into(),
            "a module that takes the mean, the first or the last token",
        )),
    }
}

/// Writes how tokens become one vector, and how they do before a classifier.
///
/// # Errors
///
/// [`ArchError::BadKey`].
pub fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    if let Some(pooling) = hparams.pooling {
        keys.own("pooling_type", Value::U32(pooling));
    }
    match hparams.get("classifier_pooling") {
        None => Ok(()),
        Some(value) => {
            let number = match value.as_str() {
                Some("cls") => CLS,
                Some("mean") => MEAN,
                _ => return Err(bad("classifier_pooling", value, "cls or mean")),
            };
            keys.own("classifier.pooling_type", Value::U32(number));
            Ok(())
        }
    }
}

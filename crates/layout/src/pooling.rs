//! Pooling of token embeddings, from `modules.json` of sentence-transformers and the config of its pooling
//! module.
//!
//! Source: `TextModel._try_set_pooling_type` in `conversion/base.py`.

use gguf_container::Value;
use serde_json::{Value as Json, json};

use crate::config::Hparams;
use crate::error::{bad, bad_in};
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
    // `modules.json` lists the steps from tokens to a vector: transformer, pooling, perhaps a
    // projection.
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
    // Older releases have one flag for each way to pool, of which one is true; newer ones name the way.
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

/// The files that say a number of `pooling_type`; none for one that a conversion does not write.
pub fn files(number: Option<u64>) -> Vec<(String, Vec<u8>)> {
    let mode = match number.and_then(|number| u32::try_from(number).ok()) {
        Some(MEAN) => "pooling_mode_mean_tokens",
        Some(CLS) => "pooling_mode_cls_token",
        Some(LAST) => "pooling_mode_lasttoken",
        _ => return Vec::new(),
    };
    let module = |idx: u32, path: &str, kind: &str| {
        let kind = format!("sentence_transformers.models.{kind}");
        json!({"idx": idx, "name": idx.to_string(), "path": path, "type": kind})
    };
    let modules = json!([module(0, "", "Transformer"), module(1, FOLDER, "Pooling")]);
    let file = |name: String, json: Json| (name, format!("{json:#}\n").into_bytes());
    vec![file(FILE.into(), modules), file(format!("{FOLDER}/config.json"), json!({ mode: true }))]
}

/// The folder of a pooling module that is written.
const FOLDER: &str = "1_Pooling";

/// Writes how tokens become one vector, and how they do before a classifier.
///
/// # Errors
///
/// [`ArchError::BadKey`].
pub fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    if let Some(pooling) = hparams.derived.pooling {
        keys.set_prefixed("pooling_type", Value::U32(pooling));
    }
    keys.derived_from("classifier.pooling_type", &["classifier_pooling"]);
    match hparams.get("classifier_pooling") {
        None => Ok(()),
        Some(value) => {
            let number = match value.as_str() {
                Some("cls") => CLS,
                Some("mean") => MEAN,
                _ => return Err(bad("classifier_pooling", value, "cls or mean")),
            };
            keys.set_prefixed("classifier.pooling_type", Value::U32(number));
            Ok(())
        }
    }
}

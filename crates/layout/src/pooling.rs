//! Pooling of token embeddings, from `modules.json` of sentence-transformers and the config of its pooling
//! module, or else from `embedding_config.json`.
//!
//! Source: `TextModel._try_set_pooling_type` in `conversion/base.py` of llama.cpp build 11549.

use gguf_container::Value;
use serde_json::{Value as Json, json};

use crate::config::Hparams;
use crate::error::{bad, bad_in};
use crate::keys::Keys;
use crate::{ArchError, Input};

const FILE: &str = "modules.json";
/// Read for models without a pooling module.
const EMBEDDING_CONFIG: &str = "embedding_config.json";
/// Numbers of `PoolingType` in `gguf-py/gguf/constants.py`.
const MEAN: u32 = 1;
const CLS: u32 = 2;
const LAST: u32 = 3;

/// The modules of `modules.json` in their order, from tokens to a vector.
fn modules(input: &Input<'_>) -> Vec<Json> {
    let modules = input.file(FILE).and_then(|bytes| serde_json::from_slice(bytes).ok());
    modules.unwrap_or_default()
}

/// The name of a module's class, without the Python module in front.
fn class_of(module: &Json) -> &str {
    let class = module.get("type").and_then(Json::as_str).unwrap_or_default();
    class.rsplit('.').next().unwrap_or(class)
}

fn path_of(module: &Json) -> &str {
    module.get("path").and_then(Json::as_str).unwrap_or_default()
}

/// The number of `pooling_type`, if a pooling module or `embedding_config.json` names one.
///
/// # Errors
///
/// [`ArchError::BadKey`] for a module whose config is not there and for another pooling in `embedding_config.json`,
/// [`ArchError::Pooling`] for a module that pools in another way.
pub fn read(input: &Input<'_>) -> Result<Option<u32>, ArchError> {
    let modules = modules(input);
    let Some(module) = modules.iter().find(|module| class_of(module) == "Pooling") else {
        return of_embedding_config(input);
    };
    let path = path_of(module);
    let file = format!("{path}/config.json");
    let config = input.file(&file).and_then(|bytes| serde_json::from_slice::<Json>(bytes).ok());
    let config = config.ok_or_else(|| bad_in(FILE, "path", &path.into(), "a folder with a config.json"))?;
    // Older releases have a flag for each mode; newer ones name the mode. Several modes are concatenated.
    let flags = config.as_object().into_iter().flatten().filter(|(_, flag)| **flag == Json::Bool(true));
    let flags = flags.filter_map(|(key, _)| key.strip_prefix("pooling_mode_"));
    let mut modes: Vec<&str> = flags.collect();
    match config.get("pooling_mode") {
        Some(Json::Array(names)) if modes.is_empty() => modes.extend(names.iter().filter_map(Json::as_str)),
        Some(Json::String(name)) if modes.is_empty() => modes.push(name),
        _ => {}
    }
    match modes[..] {
        ["mean_tokens" | "mean"] => Ok(Some(MEAN)),
        ["cls_token" | "cls"] => Ok(Some(CLS)),
        ["lasttoken"] => Ok(Some(LAST)),
        _ => Err(ArchError::Pooling { file, modes: modes.into_iter().map(str::to_owned).collect() }),
    }
}

/// `pooling` of `embedding_config.json`, if the file has it.
fn of_embedding_config(input: &Input<'_>) -> Result<Option<u32>, ArchError> {
    let config = input.file(EMBEDDING_CONFIG).and_then(|bytes| serde_json::from_slice::<Json>(bytes).ok());
    match config.unwrap_or_default().get("pooling") {
        None | Some(Json::Null) => Ok(None),
        Some(pooling) if pooling == "last_token" => Ok(Some(LAST)),
        Some(other) => Err(bad_in(EMBEDDING_CONFIG, "pooling", other, "last_token")),
    }
}

/// Warnings about modules that change the vectors and that the file lacks. Dense modules have their own.
pub fn warnings(input: &Input<'_>) -> Vec<String> {
    const KNOWN: [&str; 4] = ["Transformer", "Pooling", "Dense", "Normalize"];
    let modules = modules(input);
    let lost = modules.iter().filter(|module| !KNOWN.contains(&class_of(module)));
    let lost = lost.map(|module| {
        format!(
            "module `{}` (`{}`) of {FILE} is omitted: vectors will differ from those of sentence-transformers",
            path_of(module),
            class_of(module)
        )
    });
    lost.collect()
}

/// True if sentence-transformers converts text to lower case before it is tokenized.
pub fn lowers_text(input: &Input<'_>) -> bool {
    let config = input.file("sentence_bert_config.json");
    let config = config.and_then(|bytes| serde_json::from_slice::<Json>(bytes).ok());
    config.is_some_and(|config| config.get("do_lower_case") == Some(&Json::Bool(true)))
}

/// The files that state `pooling_type`, other than those that a conversion does not write.
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

/// Writes how tokens become one vector, how they do before a classifier, and the activation of a classifier.
///
/// # Errors
///
/// [`ArchError::BadKey`].
pub fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    if let Some(pooling) = hparams.derived.pooling {
        keys.set_prefixed("pooling_type", Value::U32(pooling));
    }
    keys.derived_from("classifier.pooling_type", &["classifier_pooling"]);
    if let Some(value) = hparams.get("classifier_pooling") {
        let number = match value.as_str() {
            Some("cls") => CLS,
            Some("mean") => MEAN,
            _ => return Err(bad("classifier_pooling", value, "cls or mean")),
        };
        keys.set_prefixed("classifier.pooling_type", Value::U32(number));
    }
    keys.derived_from("classifier.activation", &["classifier_activation"]);
    if let Some(value) = hparams.get("classifier_activation") {
        let name = value.as_str().filter(|name| ["gelu", "silu", "tanh"].contains(name));
        let name = name.ok_or_else(|| bad("classifier_activation", value, "gelu, silu or tanh"))?;
        keys.set_prefixed("classifier.activation", name.into());
    }
    Ok(())
}

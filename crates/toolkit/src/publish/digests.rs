//! Digests of a base: of everything that predictions depend on, and of the rest of its metadata.
//!
//! A new chat template, name or license changes the second digest only. Importance matrix, weights and measurements then
//! stay valid, and files get new headers.

use std::path::Path;

use gguf_container::{Metadata, Model, Value};
use gguf_tokenizer::keys::CHAT_TEMPLATE;
use gguf_types::hex;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{
    context::{Context, Stage},
    interruption::ends_soon,
};
use crate::{
    container_file::open_model, error::Error, events::Events, hash::digest_of_weights, input_kind,
    metadata_json::entry,
};

/// Digests of a base, in hexadecimal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Digests {
    /// Digest of tensors, hyperparameters and tokens.
    pub weights: String,
    /// Digest of names, license, sampling defaults and chat template.
    pub head: String,
}

/// True for a key that only describes the model, or that templates and samplers read.
pub fn is_descriptive(key: &str) -> bool {
    let is_general = key.starts_with("general.")
        && !["general.architecture", "general.alignment", "general.type"].contains(&key);
    (is_general && !is_of_file(key)) || key.starts_with(CHAT_TEMPLATE)
}

/// True for a key that describes the file and not the model: its types, its shards, the way it was made.
pub fn is_of_file(key: &str) -> bool {
    ["general.file_type", "general.quantization_version"].contains(&key)
        || ["split.", "quantize.", "gguf_tools."].iter().any(|prefix| key.starts_with(prefix))
}

/// The model of a file.
///
/// # Errors
/// A file that cannot be read or is not a model.
pub fn open(path: &Path) -> Result<Model, Error> {
    let model = open_model(path)?;
    input_kind::check_language_model(path)?;
    Ok(model)
}

/// The digests of the base at `path`, whose bytes depend on `state`.
pub fn digests(state: &str, path: &Path, context: &mut Context<'_>) -> Result<Digests, Error> {
    context.make(&Stage { name: "digests", key: state, folder: None }, |context| {
        let model = open(path)?;
        let weights = weights(&model, context.events)?;
        let digests = Digests { weights, head: of_keys(model.metadata(), is_descriptive) };
        Ok((model.shards().iter().map(|(path, _)| path.clone()).collect(), digests))
    })
}

fn of_keys(metadata: &Metadata, is_wanted: impl Fn(&str) -> bool) -> String {
    let mut hasher = Sha256::new();
    let keys = metadata.iter().filter(|(key, _)| is_wanted(key));
    keys.for_each(|(key, value)| hasher.update(format!("{key} {}\n", text_of(value))));
    hex(&hasher.finalize())
}

fn text_of(value: &Value) -> String {
    entry(value).to_string()
}

fn weights(model: &Model, events: &dyn Events) -> Result<String, Error> {
    let keys = of_keys(model.metadata(), |key| !is_descriptive(key) && !is_of_file(key));
    let _guard = ends_soon(events);
    let tensors = digest_of_weights(model, events)?;
    Ok(hex(&Sha256::digest(format!("{keys} {tensors}"))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_predictions_and_tokens_count_as_weights() {
        for key in [
            "general.name",
            "general.license",
            "general.sampling.temp",
            CHAT_TEMPLATE,
            "tokenizer.chat_template.rag",
        ] {
            assert!(is_descriptive(key), "{key}");
        }
        for key in [
            "general.architecture",
            "llama.block_count",
            "tokenizer.ggml.tokens",
            "general.file_type",
            "split.no",
        ] {
            assert!(!is_descriptive(key), "{key}");
        }
    }
}

//! Digests of a base: of everything that predictions depend on, and of the rest of its metadata.
//!
//! A new chat template, name or license changes the second digest only. Importance matrix, weights and measurements then
//! stay valid, and files get new headers.

use gguf_container::{Metadata, Model, Value};
use gguf_tokenizer::keys::CHAT_TEMPLATE;
use gguf_types::hex;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{interruption::ends_soon, work::Work};
use crate::{error::Error, events::Events, hash::digest_of_weights, metadata_json::entry};

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

/// The digests of a base whose bytes depend on `state`. `open` is called unless they are known.
///
/// # Errors
/// A file that cannot be read; an interruption.
pub fn digests(
    state: &str,
    open: impl FnOnce() -> Result<Model, Error>,
    work: &mut Work,
    events: &dyn Events,
) -> Result<Digests, Error> {
    const STAGE: &str = "digests";
    if let Some(digests) = work.standing(STAGE, state) {
        return Ok(digests);
    }
    let model = open()?;
    let digests =
        Digests { weights: weights(&model, events)?, head: of_keys(model.metadata(), is_descriptive) };
    let paths: Vec<_> = model.shards().iter().map(|(path, _)| path.clone()).collect();
    work.done(STAGE, state, &paths, &digests)?;
    Ok(digests)
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

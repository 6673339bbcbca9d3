//! Tokens of a tokenizer by id, from any of its files, for messages.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use super::spm_model::SpmModel;
use crate::TokenizerFiles;

/// Tokens with ids from `first` on, in id order.
pub(super) fn from_id(input: &TokenizerFiles<'_>, first: u64) -> Vec<String> {
    let mut found: BTreeMap<u64, String> = BTreeMap::new();
    let json = |file: &str| serde_json::from_slice::<Json>(input.file(file)?).ok();
    let mut add = |text: &str, id: Option<u64>| {
        if let Some(id) = id.filter(|id| *id >= first) {
            found.entry(id).or_insert_with(|| text.to_owned());
        }
    };
    if let Some(pieces) = input.file("tokenizer.model").and_then(|bytes| SpmModel::read(bytes).ok()) {
        for (id, piece) in (0..).zip(&pieces.pieces) {
            add(piece.text, Some(id));
        }
    }
    if let Some(tokenizer) = json("tokenizer.json") {
        for token in tokenizer.get("added_tokens").and_then(Json::as_array).into_iter().flatten() {
            let text = token.get("content").and_then(Json::as_str).unwrap_or_default();
            add(text, token.get("id").and_then(Json::as_u64));
        }
        let vocab = tokenizer.get("model").and_then(|model| model.get("vocab"));
        add_map(vocab, &mut add);
    }
    if let Some(config) = json("tokenizer_config.json") {
        let listed = config.get("added_tokens_decoder").and_then(Json::as_object);
        for (id, token) in listed.into_iter().flatten() {
            let text = token.get("content").and_then(Json::as_str).unwrap_or_default();
            add(text, id.parse().ok());
        }
    }
    for file in ["added_tokens.json", "vocab.json"] {
        add_map(json(file).as_ref(), &mut add);
    }
    found.into_values().collect()
}

/// Adds an object of texts and ids.
fn add_map(map: Option<&Json>, add: &mut impl FnMut(&str, Option<u64>)) {
    for (text, id) in map.and_then(Json::as_object).into_iter().flatten() {
        add(text, id.as_u64());
    }
}

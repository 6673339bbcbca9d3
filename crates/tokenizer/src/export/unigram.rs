//! A unigram vocabulary as tokenizer.json; spm.rs writes the SentencePiece model next to it.

use serde_json::{Value as Json, json};

use super::tokens::Tokens;
use crate::huggingface::{Normalization, base64};
use crate::token_type::TokenType;

pub(super) fn tokenizer_json(tokens: &Tokens, scores: &[f32], normalization: &Normalization) -> Json {
    // Trailing fillers are left out: a conversion inserts them again to match the rows of the embedding.
    let n_tokens = (0..tokens.texts.len()).rev().find(|id| !tokens.is_filler(*id)).map_or(0, |last| last + 1);
    let vocab: Vec<Json> = (0..n_tokens)
        .map(|id| json!([tokens.texts[id], scores[id].to_string().parse::<f64>().unwrap_or(0.0)]))
        .collect();
    // In SentencePiece's order: characters, then the end of the text, then runs of spaces.
    let mut normalizers = Vec::new();
    if !normalization.charsmap.is_empty() {
        normalizers.push(
            json!({"type": "Precompiled", "precompiled_charsmap": base64::encode(&normalization.charsmap)}),
        );
    }
    if normalization.remove_extra_whitespaces {
        normalizers.push(json!({"type": "Strip", "strip_left": false, "strip_right": true}));
        normalizers.push(json!({"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "\u{2581}"}));
    }
    let scheme = if normalization.add_space_prefix { "always" } else { "never" };
    let spaces =
        json!({"type": "Metaspace", "replacement": "\u{2581}", "prepend_scheme": scheme, "split": true});
    let unknown = tokens.kinds.iter().position(|kind| *kind == TokenType::Unknown).or(tokens.unknown);
    json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": tokens.added(),
        "normalizer": {"type": "Sequence", "normalizers": normalizers},
        "pre_tokenizer": spaces,
        "post_processor": tokens.template(),
        "decoder": spaces,
        "model": {"type": "Unigram", "unk_id": unknown, "vocab": vocab, "byte_fallback": false},
    })
}

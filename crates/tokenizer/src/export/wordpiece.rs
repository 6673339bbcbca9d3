//! WordPiece as tokenizer.json: reverts the conversion of word marks.

use serde_json::{Map, Value as Json, json};

use super::tokens::Tokens;
use crate::token_type::TokenType;

/// Mark of a part that begins a word in a file, and of one that continues a word in tokenizer.json.
const MARKS: [&str; 2] = ["\u{2581}", "##"];

/// Text of a token in tokenizer.json: control tokens are unchanged; others mark parts that continue a word
/// instead of those that begin one.
pub(super) fn text(text: &str, kind: TokenType) -> String {
    match text.strip_prefix(MARKS[0]) {
        _ if kind == TokenType::Control => text.to_owned(),
        Some(rest) => rest.to_owned(),
        None => format!("{}{text}", MARKS[1]),
    }
}

/// tokenizer.json. If the file does not specify lowercasing, it is on if no token has a capital letter.
pub(super) fn tokenizer_json(tokens: &Tokens, lowercase: Option<bool>, strip_accents: Option<bool>) -> Json {
    let words = || (0..tokens.texts.len()).filter(|id| !tokens.is_filler(*id));
    let vocab: Map<String, Json> = words().map(|id| (tokens.texts[id].clone(), id.into())).collect();
    let has_capitals = || {
        words().any(|id| {
            tokens.kinds[id] != TokenType::Control && tokens.texts[id].chars().any(char::is_uppercase)
        })
    };
    json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": tokens.added(),
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": true,
            "handle_chinese_chars": true,
            "strip_accents": strip_accents,
            "lowercase": lowercase.unwrap_or_else(|| !has_capitals()),
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": tokens.template(),
        "decoder": {"type": "WordPiece", "prefix": MARKS[1], "cleanup": true},
        "model": {
            "type": "WordPiece",
            "unk_token": tokens.unknown.map_or("[UNK]", |id| tokens.texts[id].as_str()),
            "continuing_subword_prefix": MARKS[1],
            "max_input_chars_per_word": 100,
            "vocab": vocab,
        },
    })
}

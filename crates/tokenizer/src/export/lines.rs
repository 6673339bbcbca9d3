//! Vocabularies in text files with one token per line: tokenizer.jsonl and tiktoken files.

use gguf_container::KeyError;
use serde_json::json;

use super::error::ExportError;
use super::tokens::Tokens;
use crate::huggingface::{base64, plamo};
use crate::token_type::TokenType;
use crate::{byte_alphabet, keys};

pub(super) type TokenFile = (String, Vec<u8>);

/// tokenizer.jsonl: a list of token, score and type on each line. A conversion appends fillers again.
pub(super) fn json_lines(tokens: &Tokens, scores: &[f32]) -> TokenFile {
    let last = tokens.kinds.iter().rposition(|kind| *kind != TokenType::Unused);
    let mut lines = String::new();
    for (id, text) in tokens.texts.iter().enumerate().take(last.map_or(0, |last| last + 1)) {
        let kind = match tokens.kinds[id] {
            TokenType::Unknown => "UNKNOWN",
            TokenType::Control => "CONTROL",
            TokenType::Byte => "BYTE",
            TokenType::Normal | TokenType::UserDefined | TokenType::Unused => "NORMAL",
        };
        let score = scores[id].to_string().parse::<f64>().unwrap_or_default();
        lines += &format!("{}\n", json!([text, score, kind]));
    }
    (plamo::FILE.to_owned(), lines.into_bytes())
}

/// A tiktoken file: tokens of bytes in base64, and their ranks, which are their ids. Special tokens are
/// defined in the model's code.
///
/// # Errors
/// [`ExportError::Key`] for a token that is not spelled in the byte alphabet.
pub(super) fn ranks(tokens: &Tokens, file: &str) -> Result<TokenFile, ExportError> {
    let mut lines = String::new();
    let normal = tokens.texts.iter().enumerate().take_while(|(id, _)| tokens.kinds[*id] == TokenType::Normal);
    for (id, text) in normal {
        let bytes = byte_alphabet::bytes_of(text).ok_or_else(|| KeyError::Value {
            key: keys::TOKENS.to_owned(),
            expected: "tokens in the alphabet of bytes".to_owned(),
            found: format!("`{text}` at {id}"),
        })?;
        lines += &format!("{} {id}\n", base64::encode(&bytes));
    }
    Ok((file.to_owned(), lines.into_bytes()))
}

//! RWKV's world vocabulary as its text file: an id, a Python literal and a number of bytes on each line.

use gguf_container::KeyError;

use super::error::ExportError;
use super::tokens::Tokens;
use crate::huggingface::rwkv;
use crate::keys;
use crate::token_type::TokenType;

/// File name and contents.
///
/// # Errors
/// [`ExportError::Key`] for a token that is not a Python literal.
pub(super) fn file(tokens: &Tokens) -> Result<(String, Vec<u8>), ExportError> {
    let mut text = String::new();
    // The first token has no text and is not in the file; tokens after the last one are fillers.
    for (id, token) in tokens.texts.iter().enumerate().skip(1) {
        if tokens.kinds[id] != TokenType::Normal {
            break;
        }
        // A single quote is escaped only if there are double quotes too.
        let quote = if token.contains('\'') && !token.contains('"') { '"' } else { '\'' };
        let literal = format!("b{quote}{token}{quote}");
        let bytes = rwkv::literal_of(&literal).ok_or_else(|| KeyError::Value {
            key: keys::TOKENS.to_owned(),
            expected: "bytes as Python prints them".to_owned(),
            found: format!("`{token}` at {id}"),
        })?;
        text += &format!("{id} {literal} {}\n", bytes.len());
    }
    Ok((rwkv::FILE.to_owned(), text.into_bytes()))
}

//! RWKV's world vocabulary: `tokenizer.ggml.model` = `rwkv`.
//!
//! The file has on each line an id, a token as a Python literal (text or bytes), and the number of its bytes.
//! llama.cpp expects the tokens in Python's notation of bytes, without the quotes.
//!
//! Source: `_set_vocab_rwkv_world` in `conversion/base.py`. If a checkpoint has no chat template, the
//! reference writes one from its own folder of templates. Ours is an equivalent template with different text,
//! so this key differs; llama.cpp recognizes it by `rwkv-world` in its comment if it does not run templates.

use super::error::VocabError;
use super::hf::malformed;
use super::token_table::TokenTable;
use super::writer::{OwnFile, TokenizerWriter};
use super::{bpe, special};
use crate::keys;
use crate::token_type::TokenType;

pub(crate) const FILE: &str = "rwkv_vocab_v20230424.txt";

const TEMPLATE: &str = include_str!("rwkv_world.jinja");

impl TokenizerWriter<'_> {
    /// The world vocabulary of RWKV.
    pub fn world(&mut self) -> Result<(), VocabError> {
        self.own_file = OwnFile { name: FILE, key: keys::RWKV_WORLD };
        let bytes =
            self.file(FILE).ok_or(VocabError::NoTokenizer { expected: "`rwkv_vocab_v20230424.txt`" })?;
        let text = std::str::from_utf8(bytes).map_err(|error| malformed(FILE, &error))?;
        let vocab_size = self.ctx.vocab_size.unwrap_or(65536);
        let n_tokens = bpe::slots_len(vocab_size, FILE)?;
        let mut table = TokenTable::default();
        table.push("<s>", TokenType::Control);
        // The file numbers its tokens from 1, line by line; token 0 has no text.
        let lines = text.split('\n').filter(|line| !line.is_empty());
        for (index, line) in lines.enumerate() {
            let token = token_of(line.trim_end_matches('\r'))
                .map_err(|problem| malformed(FILE, &format!("line {}: {problem}: `{line}`", index + 1)))?;
            let id = table.len() as u64;
            if id >= vocab_size {
                return Err(VocabError::VocabTooLarge { token: printed(&token), id, vocab_size });
            }
            table.push(printed(&token), TokenType::Normal);
        }
        table.fill(n_tokens, None);
        self.pad_to_rows(&mut table, None)?;
        let n_tokens = self.set_vocab("rwkv", "", table);
        let options = special::SpecialOptions {
            // An empty line ends a turn; bos and eos are the token without text.
            defaults: vec![("eot", 261)],
            overrides: vec![("bos", 0), ("eos", 0)],
            template_if_none: Some(TEMPLATE.trim_ascii_end()),
            ..special::SpecialOptions::default()
        };
        self.special_tokens(&options, n_tokens)
    }
}

/// Bytes of a line's token.
fn token_of(line: &str) -> Result<Vec<u8>, &'static str> {
    // `id literal length`; only the literal may contain spaces.
    let (_, rest) = line.split_once(' ').ok_or("no token")?;
    let (literal, len) = rest.rsplit_once(' ').ok_or("no length")?;
    let token = literal_of(literal).ok_or("not a Python literal")?;
    match len.parse::<usize>() {
        Ok(len) if len == token.len() => Ok(token),
        Ok(_) => Err("the token has another length"),
        Err(_) => Err("the length is not a number"),
    }
}

/// Bytes of a Python literal, of text (as UTF-8) or of bytes.
pub(crate) fn literal_of(literal: &str) -> Option<Vec<u8>> {
    let (is_bytes, body) = match literal.strip_prefix('b') {
        Some(body) => (true, body),
        None => (false, literal),
    };
    let quote = body.chars().next().filter(|quote| matches!(quote, '\'' | '"'))?;
    let body = body.strip_prefix(quote)?.strip_suffix(quote)?;
    let mut bytes = Vec::with_capacity(body.len());
    let mut chars = body.chars();
    while let Some(c) = chars.next() {
        // In a bytes literal an escape is a byte, in a text literal a character, encoded as UTF-8.
        let value = if c == '\\' { escape(&mut chars, is_bytes)? } else { u32::from(c) };
        if c == quote || (is_bytes && value > 0xff) {
            return None;
        }
        if is_bytes {
            bytes.push(value as u8);
        } else {
            bytes.extend(char::from_u32(value)?.encode_utf8(&mut [0; 4]).as_bytes());
        }
    }
    Some(bytes)
}

/// The character of an escape sequence, after its backslash.
fn escape(chars: &mut std::str::Chars<'_>, is_bytes: bool) -> Option<u32> {
    let digits = match chars.next()? {
        'x' => 2,
        'u' if !is_bytes => 4,
        'U' if !is_bytes => 8,
        'n' => return Some(0x0a),
        't' => return Some(0x09),
        'r' => return Some(0x0d),
        c @ ('\\' | '\'' | '"') => return Some(u32::from(c)),
        _ => return None,
    };
    let mut value = 0u32;
    for _ in 0..digits {
        value = value.checked_mul(16)?.checked_add(chars.next()?.to_digit(16)?)?;
    }
    Some(value)
}

/// Bytes in Python's notation, without `b` and quotes: the single quote is escaped only if there are double
/// quotes too.
fn printed(bytes: &[u8]) -> String {
    // `repr` of Python's bytes prefers single quotes, unless only double ones need no escape.
    let both = bytes.contains(&b'\'') && bytes.contains(&b'"');
    let mut text = String::with_capacity(bytes.len());
    for &byte in bytes {
        match byte {
            b'\\' => text.push_str("\\\\"),
            b'\n' => text.push_str("\\n"),
            b'\t' => text.push_str("\\t"),
            b'\r' => text.push_str("\\r"),
            b'\'' if both => text.push_str("\\'"),
            b' '..=b'~' => text.push(char::from(byte)),
            _ => text.push_str(&format!("\\x{byte:02x}")),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_become_bytes_and_are_printed() {
        for (line, bytes, text) in [
            (r"1 '\x00' 1", &b"\0"[..], r"\x00"),
            (r"11 '\n' 1", b"\n", r"\n"),
            (r#"40 "'" 1"#, b"'", "'"),
            (r#"41 '\'"' 2"#, b"'\"", r#"\'""#),
            (r"93 '\\' 1", b"\\", r"\\"),
            (r"130 b'\x81' 1", b"\x81", r"\x81"),
            (r"2000 'é a' 4", "é a".as_bytes(), r"\xc3\xa9 a"),
            (r"2001 '\u00e9' 2", "é".as_bytes(), r"\xc3\xa9"),
        ] {
            let token = token_of(line).unwrap();
            assert_eq!((token.as_slice(), printed(&token).as_str()), (bytes, text), "{line}");
        }
        for (line, problem) in [
            ("7", "no token"),
            ("7 'a'", "no length"),
            ("7 a 1", "not a Python literal"),
            ("7 'a 1", "not a Python literal"),
            ("7 'a'b' 3", "not a Python literal"),
            (r"7 '\xzz' 1", "not a Python literal"),
            (r"7 b'\u0041' 1", "not a Python literal"),
            ("7 'a' 2", "the token has another length"),
            ("7 'a' x", "the length is not a number"),
        ] {
            assert_eq!(token_of(line), Err(problem), "{line}");
        }
    }
}

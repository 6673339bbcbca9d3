//! Consistency of the tokenizer keys of a file: matching lists, existing ids, known names.

use std::collections::HashSet;

use gguf_container::{Array, Metadata, Value};

use super::{Error, Reading};
use crate::keys;
use crate::token_type::TokenType;
use crate::tokenizer::{Tokenizer, default_ids};

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum Problem {
    /// The keys do not define a tokenizer.
    #[error("{0}")]
    Unusable(Error),
    /// The length of a list differs from the number of tokens.
    #[error("`{key}`: expected {expected} entries, one per token, found {found}")]
    Length { key: String, found: usize, expected: usize },
    /// The number of a token type is invalid.
    #[error("`tokenizer.ggml.token_type` of token {id}: expected 1 to 6, found {found}")]
    Kind { id: usize, found: i64 },
    /// The id of a special token is out of range.
    #[error("`{key}`: {found} is out of range for {tokens} tokens")]
    SpecialId { key: String, found: String, tokens: usize },
    /// A token that begins or ends texts has another type.
    #[error("`{key}`: token {id} (`{token}`) is {kind}, which does not mark the start or the end of a text")]
    SpecialKind { key: String, id: usize, token: String, kind: &'static str },
    /// A special token has the type of ordinary text.
    #[error("`{key}`: token {id} (`{token}`) is ordinary text{}", consequence(.key, .token))]
    Ordinary { key: String, id: usize, token: String },
    /// A missing key's default token is ordinary text.
    #[error(
        "missing metadata key `{key}`: llama.cpp uses token {id} (`{token}`), which is ordinary text{}",
        consequence(.key, .token)
    )]
    OrdinaryDefault { key: String, id: usize, token: String },
    /// The vocabulary cannot encode a byte.
    #[error("missing token `<0x{byte:02X}>`: llama.cpp stops at the first text that needs it")]
    MissingByte { byte: u8 },
    /// The pre-tokenizer is unknown to llama.cpp, but does not matter.
    #[error("`tokenizer.ggml.pre`: `{pre}` is unknown to llama.cpp")]
    Pre { pre: String },
    #[error(
        "missing metadata key `tokenizer.ggml.pre`: text is split by the default pre-tokenizer, so its tokens may differ from \
            those of the model"
    )]
    NoPre,
}

impl Problem {
    /// True if the file works anyway.
    pub fn is_minor(&self) -> bool {
        matches!(
            self,
            Problem::SpecialKind { .. }
                | Problem::Ordinary { .. }
                | Problem::OrdinaryDefault { .. }
                | Problem::MissingByte { .. }
                | Problem::Pre { .. }
                | Problem::NoPre
        )
    }

    /// Machine-readable name.
    pub fn code(&self) -> &'static str {
        match self {
            Problem::Unusable(_) => "tokenizer",
            Problem::Length { .. } => "tokenizer_length",
            Problem::Kind { .. } => "token_type",
            Problem::SpecialId { .. } => "special_id",
            Problem::SpecialKind { .. } => "special_kind",
            Problem::Ordinary { .. } | Problem::OrdinaryDefault { .. } => "special_ordinary",
            Problem::MissingByte { .. } => "missing_byte",
            Problem::Pre { .. } | Problem::NoPre => "pre",
        }
    }
}

/// Problems of the tokenizer keys of a file; `None` if it has no tokenizer, which is optional.
pub fn check(metadata: &Metadata) -> Option<Vec<Problem>> {
    if !metadata.iter().any(|(key, _)| key.starts_with("tokenizer.ggml.")) {
        return None;
    }
    let mut problems = Vec::new();
    // The stricter reading: llama.cpp ignores invalid ids and merges.
    match Tokenizer::from_gguf(metadata).encoder(Reading::Model) {
        // All special ids are checked below.
        Err(Error::SpecialIdOutOfRange { .. }) => {}
        Err(error) => problems.push(Problem::Unusable(error)),
        Ok(encoder) => {
            problems.extend(encoder.unknown_pre().map(|pre| Problem::Pre { pre: pre.to_owned() }));
        }
    }
    problems.extend(doubts(metadata));
    let list = |key: &str| metadata.get(key).and_then(Value::as_array);
    let Some(tokens) = list(keys::TOKENS).map(Array::len) else { return Some(problems) };
    // Lists that are too short are reported above.
    for key in [keys::SCORES, keys::TOKEN_TYPE] {
        if let Some(found) = list(key).map(Array::len).filter(|found| *found > tokens) {
            problems.push(Problem::Length { key: key.to_owned(), found, expected: tokens });
        }
    }
    if let Some(Array::I32(kinds)) = list(keys::TOKEN_TYPE)
        && let Some(id) = kinds.iter().position(|kind| !(1..=6).contains(kind))
    {
        problems.push(Problem::Kind { id, found: kinds[id].into() });
    }
    for (key, value) in metadata {
        if keys::is_special_id(key) {
            let id = value.as_u64().and_then(|id| usize::try_from(id).ok());
            if id.is_none_or(|id| id >= tokens) {
                problems.push(Problem::SpecialId { key: key.clone(), found: value.to_string(), tokens });
            }
        }
    }
    problems.extend(MARKS.iter().filter_map(|name| special_kind(metadata, keys::special_id(name))));
    problems.extend(missing_byte(metadata));
    Some(problems)
}

/// Problems that may change the tokens of a text, or end it at ordinary text.
pub fn doubts(metadata: &Metadata) -> Vec<Problem> {
    let is_bpe = metadata.get(keys::MODEL).and_then(Value::as_str) == Some("gpt2");
    let no_pre = (is_bpe && !metadata.contains(keys::PRE)).then_some(Problem::NoPre);
    no_pre.into_iter().chain(ordinary_specials(metadata)).collect()
}

/// Special tokens, from keys or llama.cpp's defaults, that are ordinary text although the vocabulary has
/// control tokens.
fn ordinary_specials(metadata: &Metadata) -> Vec<Problem> {
    let list = |key: &str| metadata.get(key).and_then(Value::as_array);
    let (Some(Array::String(tokens)), Some(Array::I32(kinds))) = (list(keys::TOKENS), list(keys::TOKEN_TYPE))
    else {
        return Vec::new();
    };
    // A turn of RWKV ends with an empty line.
    let is_rwkv = metadata.get(keys::MODEL).and_then(Value::as_str) == Some("rwkv");
    if is_rwkv || !kinds.contains(&TokenType::Control.id()) {
        return Vec::new();
    }
    let ordinary = |id: u64| {
        let id = usize::try_from(id).ok()?;
        let token = String::from_utf8_lossy(tokens.get(id)?).into_owned();
        let is_normal = kinds.get(id).is_some_and(|kind| *kind == TokenType::Normal.id());
        (is_normal && !is_mark(&token)).then_some((id, token))
    };
    let mut found = Vec::new();
    for key in metadata.iter().map(|(key, _)| key).filter(|key| keys::is_special_id(key)) {
        let id = metadata.get(key).and_then(Value::as_u64).filter(|_| key != keys::UNK_ID);
        found.extend(id.and_then(ordinary).map(|(id, token)| Problem::Ordinary {
            key: key.clone(),
            id,
            token,
        }));
    }
    let tokenizer = Tokenizer::from_gguf(metadata);
    let [bos, eos] = default_ids(tokenizer.model().unwrap_or_default());
    let is_added = metadata.flag(keys::ADD_BOS).ok().flatten().unwrap_or(tokenizer.added_by_default()[0]);
    for (key, id) in [(keys::BOS_ID, bos.filter(|_| is_added)), (keys::EOS_ID, eos)] {
        let id = id.filter(|_| !metadata.contains(key)).map(u64::from);
        found.extend(id.and_then(ordinary).map(|(id, token)| Problem::OrdinaryDefault {
            key: key.to_owned(),
            id,
            token,
        }));
    }
    found
}

/// True for the usual spelling of special tokens (`</s>`, `[SEP]`, `<|end|>`).
fn is_mark(token: &str) -> bool {
    let token = token.trim_start_matches('\u{2581}');
    let between =
        |start: char, end: char| token.len() > 2 && token.starts_with(start) && token.ends_with(end);
    between('<', '>') || between('[', ']')
}

/// Effect of a special token that is ordinary text, for a message.
fn consequence(key: &str, token: &str) -> String {
    match key {
        keys::EOS_ID | keys::EOT_ID | keys::EOM_ID => {
            format!(", so every answer ends at the first `{token}`")
        }
        keys::BOS_ID => ", which programs put before a text".to_owned(),
        _ => String::new(),
    }
}

/// First byte that a SentencePiece vocabulary cannot encode, neither as `<0x0A>` nor as itself.
///
/// Source: `llama_vocab::impl::byte_to_token` in `src/llama-vocab.cpp`.
pub fn missing_byte(metadata: &Metadata) -> Option<Problem> {
    if metadata.get(keys::MODEL).and_then(Value::as_str) != Some("llama") {
        return None;
    }
    let tokens = metadata.texts(keys::TOKENS).ok().flatten()?;
    let short: HashSet<&[u8]> = tokens.iter().filter(|token| [1, 6].contains(&token.len())).collect();
    let has = |byte: u8| short.contains(format!("<0x{byte:02X}>").as_bytes()) || short.contains(&[byte][..]);
    // Other bytes do not occur in UTF-8.
    let mut bytes = (0x01..=0xf4).filter(|byte| ![0xc0, 0xc1].contains(byte));
    bytes.find(|byte| !has(*byte)).map(|byte| Problem::MissingByte { byte })
}

/// Tokens that begin or end a text or a turn.
const MARKS: [&str; 4] = ["bos", "eos", "eot", "eom"];

/// Problem of a key that names the unknown token or a byte token.
fn special_kind(metadata: &Metadata, key: String) -> Option<Problem> {
    let id = usize::try_from(metadata.get(&key)?.as_u64()?).ok()?;
    let tokens = metadata.texts(keys::TOKENS).ok().flatten()?;
    let token = String::from_utf8_lossy(tokens.get(id)?).into_owned();
    let stated = match metadata.get(keys::TOKEN_TYPE).and_then(Value::as_array) {
        Some(Array::I32(kinds)) => kinds.get(id).copied(),
        _ => None,
    };
    let is_byte = token.len() == 6 && token.starts_with("<0x") && token.ends_with('>');
    let kind = match stated {
        Some(2) => "the unknown token",
        Some(6) => "a byte",
        _ if token == "<unk>" => "the unknown token",
        _ if is_byte => "a byte",
        _ => return None,
    };
    Some(Problem::SpecialKind { key, id, token, kind })
}

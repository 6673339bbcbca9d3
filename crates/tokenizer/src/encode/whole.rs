//! Consistency of the tokenizer keys of a file: matching lists, existing ids, known names.

use gguf_container::{Array, Metadata, Value};

use super::{Error, Reading};
use crate::keys;
use crate::tokenizer::Tokenizer;

/// Problem of tokenizer keys.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// No tokenizer can be made of them.
    #[error("{0}")]
    Unusable(Error),
    /// A list of another length than that of the tokens.
    #[error("`{key}`: expected {expected} entries, one per token, found {found}")]
    Length {
        /// The key.
        key: String,
        /// Its items.
        found: usize,
        /// Tokens.
        expected: usize,
    },
    /// A number that is no kind of token.
    #[error("`tokenizer.ggml.token_type` of token {id}: expected 1 to 6, found {found}")]
    Kind {
        /// The token.
        id: usize,
        /// The number.
        found: i64,
    },
    /// A special token that the vocabulary does not have.
    #[error("`{key}`: {found} is out of range for {tokens} tokens")]
    SpecialId {
        /// The key.
        key: String,
        /// Its value.
        found: String,
        /// Tokens.
        tokens: usize,
    },
    /// A token that begins or ends texts, and is of another kind.
    #[error("`{key}`: token {id} (`{token}`) is {kind}, which does not mark the start or the end of a text")]
    SpecialKind {
        /// The key.
        key: String,
        /// The token.
        id: usize,
        /// Its text.
        token: String,
        /// Its kind.
        kind: &'static str,
    },
    /// A pre-tokenizer that llama.cpp does not know, where it means nothing.
    #[error("`tokenizer.ggml.pre`: `{pre}` is unknown to llama.cpp")]
    Pre {
        /// The name.
        pre: String,
    },
    /// Nothing says how text is split before pairs are merged.
    #[error(
        "missing metadata key `tokenizer.ggml.pre`: llama.cpp uses its default pre-tokenizer and prints a warning"
    )]
    NoPre,
}

impl Problem {
    /// True if the file works anyway.
    pub fn is_minor(&self) -> bool {
        matches!(self, Problem::SpecialKind { .. } | Problem::Pre { .. } | Problem::NoPre)
    }

    /// A name for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Problem::Unusable(_) => "tokenizer",
            Problem::Length { .. } => "tokenizer_length",
            Problem::Kind { .. } => "token_type",
            Problem::SpecialId { .. } => "special_id",
            Problem::SpecialKind { .. } => "special_kind",
            Problem::Pre { .. } | Problem::NoPre => "pre",
        }
    }
}

/// Problems of the tokenizer keys of a file; `None` if it has no tokenizer, which not all files need.
pub fn check(metadata: &Metadata) -> Option<Vec<Problem>> {
    if !metadata.iter().any(|(key, _)| key.starts_with("tokenizer.ggml.")) {
        return None;
    }
    let mut problems = Vec::new();
    // The stricter reading: llama.cpp passes over ids and merges that no tokenizer could have.
    match Tokenizer::from_gguf(metadata).encoder(Reading::Model) {
        // All special ids are looked at below.
        Err(Error::SpecialIdOutOfRange { .. }) => {}
        Err(error) => problems.push(Problem::Unusable(error)),
        Ok(encoder) => {
            problems.extend(encoder.unknown_pre().map(|pre| Problem::Pre { pre: pre.to_owned() }));
        }
    }
    let model = metadata.get(keys::MODEL).and_then(Value::as_str).unwrap_or_default();
    if model == "gpt2" && !metadata.contains(keys::PRE) {
        problems.push(Problem::NoPre);
    }
    let list = |key: &str| metadata.get(key).and_then(Value::as_array);
    let Some(tokens) = list(keys::TOKENS).map(Array::len) else { return Some(problems) };
    // Lists that are too short are among the above.
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
    Some(problems)
}

/// Tokens that begin or end a text or a turn.
const MARKS: [&str; 4] = ["bos", "eos", "eot", "eom"];

/// The problem of a key that names the unknown token or a byte.
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

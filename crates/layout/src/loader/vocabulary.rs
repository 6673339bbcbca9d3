//! Lists of tokens that llama.cpp refuses. The table has the keys of tokenizers and their types.
//!
//! Source: `llama_vocab::impl::load` and `llm_tokenizer_plamo2` (src/llama-vocab.cpp).

use std::collections::HashSet;

use gguf_container::{Array, Metadata, Strings, Value};

use super::refusal::{Refusal, TOKENS};

/// The table of T5 for normalization: the length of its first part, the parts.
const CHARSMAP: &str = "tokenizer.ggml.precompiled_charsmap";

/// Tokens that a model with "phi3" or "phi-3" in its name must have.
const PHI3_TOKENS: [&str; 4] = ["</s>", "<unk>", "<s>", "<|endoftext|>"];

/// `LLAMA_TOKEN_TYPE_BYTE`.
const BYTE: i32 = 6;

/// Reasons to refuse the tokenizer of a file.
pub fn problems(metadata: &Metadata) -> Vec<Refusal> {
    let text = |key| metadata.get(key).and_then(Value::as_str);
    let model = text("tokenizer.ggml.model").unwrap_or_default();
    let Some(Array::String(tokens)) = metadata.get(TOKENS).and_then(Value::as_array) else {
        return Vec::new();
    };
    if matches!(model, "no_vocab" | "none") {
        return Vec::new();
    }
    let mut found = Vec::new();
    let pre = text("tokenizer.ggml.pre").filter(|pre| !pre.is_empty());
    let is_bpe = matches!(model, "gpt2" | "hybriddna" | "whitespace");
    if let Some(pre) = pre.filter(|pre| is_bpe && !gguf_tokenizer::pre_names().any(|known| known == *pre)) {
        found.push(Refusal::KeyValues { keys: vec![format!("`tokenizer.ggml.pre` {pre}")] });
    }
    if model == "t5" {
        found.extend(metadata.get(CHARSMAP).and_then(Value::as_array).and_then(short_charsmap));
    }
    let types = match metadata.get("tokenizer.ggml.token_type").and_then(Value::as_array) {
        Some(Array::I32(types)) => types.as_slice(),
        _ => &[],
    };
    let bytes = || tokens.iter().zip(types).filter(|(_, kind)| **kind == BYTE).map(|(token, _)| token);
    let name = text("general.name").unwrap_or_default().to_ascii_lowercase();
    let of_tokens = duplicate(tokens)
        .or_else(|| match model {
            "plamo2" | "plamo3" => missing_byte(bytes().collect()),
            "rwkv" | "test" => None,
            model => wrong_byte(bytes(), model == "bert"),
        })
        .or_else(|| phi3_token(tokens).filter(|_| name.contains("phi3") || name.contains("phi-3")));
    found.extend(of_tokens.map(|problem| Refusal::Tokens { problem }));
    found
}

/// A table that ends within its first part.
fn short_charsmap(list: &Array) -> Option<Refusal> {
    let bytes: Vec<u8> = match list {
        Array::U8(bytes) => bytes.iter().take(4).copied().collect(),
        Array::I8(bytes) => bytes.iter().take(4).map(|byte| byte.cast_unsigned()).collect(),
        _ => return None,
    };
    let length = bytes.try_into().map(u32::from_le_bytes).ok();
    let is_right = length.is_some_and(|length| u64::from(length) + 4 < list.len() as u64);
    let keys = vec![format!("`{CHARSMAP}` ({} elements)", list.len())];
    (!is_right).then_some(Refusal::KeyValues { keys })
}

/// Two tokens with the same text. llama.cpp reads texts up to a zero byte, and names those that are empty.
fn duplicate(tokens: &Strings) -> Option<String> {
    let mut seen = HashSet::new();
    let text = |token: &'_ [u8]| token.iter().position(|byte| *byte == 0).unwrap_or(token.len());
    let twice = tokens.iter().find(|token| {
        let read = &token[..text(token)];
        !read.is_empty() && !seen.insert(read)
    })?;
    let end = text(twice);
    let cut = if end < twice.len() { ", which has a zero byte" } else { "" };
    Some(format!("duplicate token `{}`{cut}", String::from_utf8_lossy(&twice[..end])))
}

/// A token with the type of bytes that does not spell one (`<0x0A>`); WordPiece has none.
fn wrong_byte<'a>(mut bytes: impl Iterator<Item = &'a [u8]>, is_word_piece: bool) -> Option<String> {
    let token = bytes.find(|token| is_word_piece || token.len() < 3)?;
    Some(format!("token `{}` is not a byte", String::from_utf8_lossy(token)))
}

fn missing_byte(bytes: HashSet<&[u8]>) -> Option<String> {
    let mut all = (0..=u8::MAX).map(|byte| format!("<0x{byte:02X}>"));
    let missing = all.find(|token| !bytes.contains(token.as_bytes()))?;
    Some(format!("missing token `{missing}`"))
}

fn phi3_token(tokens: &Strings) -> Option<String> {
    let missing = PHI3_TOKENS.iter().find(|token| !tokens.iter().any(|found| found == token.as_bytes()))?;
    Some(format!("missing token `{missing}`, which the `general.name` of Phi-3 requires"))
}

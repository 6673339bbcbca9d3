//! Identifies a pre-tokenizer like llama.cpp: by a hash of the tokens of a test text.
//!
//! The tokenizer library encodes the text, with a vocabulary reduced to the tokens that can occur: a quarter
//! of a million tokens and merges would take half a second to load.
//!
//! Source: `get_vocab_base_pre` in `conversion/base.py`; `test_text.txt` and `hashes.txt` are
//! its data.

use std::collections::HashSet;

use gguf_types::hex;
use serde_json::{Value as Json, json};
use sha2::{Digest, Sha256};
use tokenizers::{
    NormalizedString, Normalizer as _, NormalizerWrapper, OffsetReferential, OffsetType, PreTokenizedString,
    PreTokenizer as _, PreTokenizerWrapper, Tokenizer,
};

use super::super::added::{AddedVocab, Ids};
use super::super::hf::{AddedToken, HfTokenizer, tokenizer_config};
use super::super::library::{check_added, check_prefix, check_steps, timed};
use crate::TokenizerFiles;

const TEST_TEXT: &str = include_str!("test_text.txt");

/// The reference's name for a hash; the last of several.
pub(super) fn name_of(hash: &str) -> Option<&'static str> {
    let lines = include_str!("hashes.txt").lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split_once(' ')).rfind(|(other, _)| *other == hash).map(|(_, name)| name)
}

/// Hashes of the ids of the test text: as the tokenizer encodes it; with bos and eos by the flags of tokenizer_config.json, as
/// transformers 4 does for some classes; without both.
pub(super) fn hashes(
    input: &TokenizerFiles<'_>,
    hf: &HfTokenizer,
    added: &AddedVocab,
    ids: &Ids<'_>,
) -> Result<Vec<String>, String> {
    check_steps(&[&hf.normalizer, &hf.pre_tokenizer, &hf.post_processor])?;
    check_added(hf, added)?;
    let small = small_tokenizer(hf, added, ids)?.to_string();
    let (full, bare) = timed(move || {
        let tokenizer = Tokenizer::from_bytes(small).map_err(|error| error.to_string())?;
        let encode = |special| match tokenizer.encode(TEST_TEXT, special) {
            Ok(encoding) => Ok(encoding.get_ids().to_vec()),
            Err(error) => Err(error.to_string()),
        };
        Ok((encode(true)?, encode(false)?))
    })?;
    let config = tokenizer_config(input).ok().flatten().unwrap_or_default();
    let added_id = |name: &str| -> Option<u32> {
        config.get(&format!("add_{name}_token")).and_then(Json::as_bool).filter(|is_added| *is_added)?;
        let token = config.get(&format!("{name}_token"))?;
        let text = token.as_str().or_else(|| token.get("content")?.as_str())?;
        let by_text = |id: &u32| added.by_id.get(id).is_some_and(|token| token.content == text);
        ids.get(text).copied().or_else(|| added.by_id.keys().copied().find(by_text))
    };
    let flagged: Vec<u32> =
        added_id("bos").into_iter().chain(bare.iter().copied()).chain(added_id("eos")).collect();
    // In look-up order: tokens of transformers 5, of transformers 4, without special tokens.
    let mut all = vec![hash_of(&full)];
    for other in [flagged, bare] {
        let hash = hash_of(&other);
        if !all.contains(&hash) {
            all.push(hash);
        }
    }
    Ok(all)
}

/// Hash of a list of ids, formatted like in Python.
fn hash_of(ids: &[u32]) -> String {
    let ids: Vec<String> = ids.iter().map(u32::to_string).collect();
    hex(&Sha256::digest(format!("[{}]", ids.join(", "))))
}

/// The tokenizer reduced to tokens that are part of the test text after normalization and in the model's
/// alphabet, and merges of such tokens.
fn small_tokenizer(hf: &HfTokenizer, added: &AddedVocab, ids: &Ids<'_>) -> Result<Json, String> {
    let model = &hf.model;
    let text = model_text(hf)?;
    let parts = Parts::of(&text);
    let affixed = [&model.continuing_subword_prefix, &model.end_of_word_suffix]
        .into_iter()
        .any(|affix| affix.as_deref().is_some_and(|affix| !affix.is_empty()));
    let unknown = model.unk_token.as_deref();
    let word_piece = model.kind.as_deref() == Some("WordPiece");
    // Affixes change texts, so the vocabulary cannot be reduced then. WordPiece has one, which `parts`
    // strips. Byte tokens and the unknown token represent missing text.
    let can_appear = |token: &str| {
        (affixed && !word_piece)
            || parts.contain(token.strip_prefix("##").unwrap_or(token))
            || Some(token) == unknown
            || (token.starts_with("<0x") && token.ends_with('>'))
    };
    let mut vocab: serde_json::Map<String, Json> = model
        .vocab
        .0
        .iter()
        .filter(|(text, _)| can_appear(text))
        .map(|(text, id)| (text.clone(), Json::from(*id)))
        .collect();
    let merges: Vec<Json> = model
        .merges
        .0
        .iter()
        .filter(|(left, right)| can_appear(left) && can_appear(right))
        .filter(|(left, right)| affixed || vocab.contains_key(&format!("{left}{right}")))
        .map(|(left, right)| json!([left, right]))
        .collect();
    let seconds = merges.iter().filter_map(|merge| merge.get(1)?.as_str());
    check_prefix(model.continuing_subword_prefix.as_deref().unwrap_or_default(), seconds)?;
    // Added tokens get their ids from the vocabulary, or else from its size, which differs here: so all are
    // inserted.
    for (id, token) in &added.by_id {
        vocab
            .entry(token.content.as_str())
            .or_insert_with(|| Json::from(*ids.get(token.content.as_str()).unwrap_or(id)));
    }
    let with_id = |(id, token): (&u32, &AddedToken)| AddedToken {
        id: Some(*id),
        normalized: Some(token.is_normalized()),
        ..token.clone()
    };
    let added_tokens: Vec<AddedToken> = added.by_id.iter().map(with_id).collect();
    Ok(json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added_tokens,
        "normalizer": hf.normalizer, "pre_tokenizer": hf.pre_tokenizer, "post_processor": hf.post_processor,
        "decoder": null,
        "model": if word_piece {
            json!({
                "type": "WordPiece", "unk_token": unknown.unwrap_or("[UNK]"), "vocab": vocab,
                "continuing_subword_prefix": model.continuing_subword_prefix.as_deref().unwrap_or("##"),
                "max_input_chars_per_word": model.max_input_chars_per_word.unwrap_or(100),
            })
        } else { json!({
            "type": "BPE", "dropout": null, "unk_token": model.unk_token, "fuse_unk": model.fuse_unk.unwrap_or(false),
            "continuing_subword_prefix": model.continuing_subword_prefix, "end_of_word_suffix": model.end_of_word_suffix,
            "byte_fallback": model.byte_fallback.unwrap_or(false), "ignore_merges": model.ignore_merges.unwrap_or(false),
            "vocab": vocab, "merges": merges,
        }) },
    }))
}

/// The test text after normalization, with all words joined.
fn model_text(hf: &HfTokenizer) -> Result<String, String> {
    let (normalizer, pre_tokenizer) = (hf.normalizer.clone(), hf.pre_tokenizer.clone());
    timed(move || {
        let problem = |part: &str, error: &dyn std::fmt::Display| format!("`{part}`: {error}");
        let mut text = NormalizedString::from(TEST_TEXT);
        if !normalizer.is_null() {
            let normalizer: NormalizerWrapper =
                serde_json::from_value(normalizer).map_err(|error| problem("normalizer", &error))?;
            normalizer.normalize(&mut text).map_err(|error| problem("normalizer", &error))?;
        }
        let mut words = PreTokenizedString::from(text);
        if !pre_tokenizer.is_null() {
            let pre: PreTokenizerWrapper =
                serde_json::from_value(pre_tokenizer).map_err(|error| problem("pre_tokenizer", &error))?;
            pre.pre_tokenize(&mut words).map_err(|error| problem("pre_tokenizer", &error))?;
        }
        // Joined again, because a token is part of a word and so of all words together.
        let words = words.get_splits(OffsetReferential::Normalized, OffsetType::None);
        Ok(words.into_iter().map(|(word, _, _)| word).collect())
    })
}

/// All parts of a text, which are looked up a quarter of a million times.
struct Parts<'a> {
    text: &'a str,
    short: HashSet<&'a str>,
}

/// Longer parts are searched in the text itself: few tokens are as long.
const SHORT_CHARS: usize = 24;

impl<'a> Parts<'a> {
    fn of(text: &'a str) -> Self {
        let mut short = HashSet::new();
        for (start, _) in text.char_indices() {
            let rest = &text[start..];
            let ends = rest.char_indices().map(|(at, c)| at + c.len_utf8()).take(SHORT_CHARS);
            short.extend(ends.map(|end| &rest[..end]));
        }
        Parts { text, short }
    }

    /// True if a token is a part. A leading space mark is ignored, because some pre-tokenizers prepend one to
    /// every piece.
    fn contain(&self, token: &str) -> bool {
        let bare = token.strip_prefix(['\u{120}', '\u{2581}', ' ']).unwrap_or(token);
        self.short.contains(bare) || bare.is_empty() || (bare.len() > SHORT_CHARS && self.text.contains(bare))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_table_is_complete() {
        let lines: Vec<&str> =
            include_str!("hashes.txt").lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(lines.len(), 100);
        for line in lines {
            let (hash, name) = line.split_once(' ').unwrap();
            assert!(hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()), "{line}");
            assert!(
                name_of(hash).is_some_and(|taken| taken == name
                    || [("mpt", "olmo"), ("bert-bge", "jina-v2-en")].contains(&(name, taken))),
                "{line}"
            );
        }
        assert_eq!(name_of("b"), None);
    }

    #[test]
    fn ids_are_hashed_as_printed_by_python() {
        // sha256 of "[1, 22, 333]", from coreutils.
        assert_eq!(
            hash_of(&[1, 22, 333]),
            "276d8737d9d5a80805e0731e8d5ae18972a8e3ba721f4988f67151c6e9159068"
        );
    }

    #[test]
    fn hash_accepts_parts_of_any_length() {
        let text = "ab\u{120}cd and something that is longer than the set of short parts";
        let parts = Parts::of(text);
        for part in ["ab", "\u{120}cd", "b\u{120}c", "\u{120}and", "something that is longer than the set"] {
            assert!(parts.contain(part), "{part}");
        }
        for part in ["ac", "\u{120}x", "something that is longer than the bag"] {
            assert!(!parts.contain(part), "{part}");
        }
    }
}

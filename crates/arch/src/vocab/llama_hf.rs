//! A llama tokenizer as tokenizer.json, without tokenizer.model: `tokenizer.ggml.model` = `llama`.
//!
//! The scores of the model are lost in that file; the reference gives every token the same one,
//! and llama.cpp then prefers merges by position instead.
//!
//! Source: `_set_vocab_llama_hf` in `conversion/base.py`, `LlamaHfVocab` in
//! `gguf-py/gguf/vocab.py`.

use std::collections::HashSet;

use gguf::Array;
use serde_json::Value as Json;

use super::added::{AddedVocab, Ids};
use super::error::VocabError;
use super::hf::HfTokenizer;
use super::keys::{self, Keys, TokenTable, TokenType};
use super::{VocabContext, bpe, check_rows, special, spm};
use crate::Input;

/// The score of every token.
const SCORE: f32 = -1000.0;

/// Whether tokenizer.json is a llama tokenizer: a BPE that falls back to byte tokens.
pub(super) fn is_one(hf: &HfTokenizer) -> bool {
    hf.file == "tokenizer.json"
        && hf.model.kind.as_deref() == Some("BPE")
        && hf.model.byte_fallback == Some(true)
        && hf.decoder.get("type").and_then(Json::as_str) == Some("Sequence")
}

/// Puts the keys of a llama tokenizer.
pub(super) fn put(
    input: &Input<'_>,
    hf: &HfTokenizer,
    ctx: &VocabContext,
    keys: &mut Keys,
    notes: &mut Vec<String>,
) -> Result<(), VocabError> {
    let mut table = table(input, hf, ctx, notes)?;
    let ids = bpe::ids_of(hf)?;
    if ctx.scores_from_merges {
        rank(&mut table, hf, &ids);
        if !says_space(keys) && !adds_space(&hf.normalizer) && !adds_space(&hf.pre_tokenizer) {
            keys.put(keys::ADD_SPACE_PREFIX, false);
        }
    } else {
        warn_of_loss(hf, &ids, keys, notes);
    }
    keys.put(keys::MODEL, "llama");
    keys.put(keys::PRE, "default");
    let n_tokens = table.len();
    table.put(keys);
    let options = special::Options { n_vocab: Some(n_tokens), ..Default::default() };
    special::put(input, Some(hf), &options, n_tokens, keys, notes)
}

fn says_space(keys: &Keys) -> bool {
    keys.0.iter().any(|(key, _)| key == keys::ADD_SPACE_PREFIX)
}

/// Scores by merges: of a token, the negative position of the first merge that makes it.
fn rank(table: &mut TokenTable, hf: &HfTokenizer, ids: &Ids<'_>) {
    let mut joined = String::new();
    for (rank, (left, right)) in hf.model.merges.0.iter().enumerate().rev() {
        joined.clear();
        joined.push_str(left);
        joined.push_str(right);
        if let Some(id) = ids.get(joined.as_str()) {
            table.scores[*id as usize] = -(rank as f32);
        }
    }
}

/// Tells in what llama.cpp will cut text otherwise than the model: its keys are the reference's,
/// which lose the order of merges and may not say that no space is put in front.
fn warn_of_loss(hf: &HfTokenizer, ids: &Ids<'_>, keys: &Keys, notes: &mut Vec<String>) {
    let mut joined = String::new();
    let mut last = 0;
    let in_order = hf.model.merges.0.iter().all(|(left, right)| {
        joined.clear();
        joined.push_str(left);
        joined.push_str(right);
        let id = ids.get(joined.as_str()).copied().unwrap_or(last);
        let grows = id >= last;
        last = id;
        grows
    });
    let order = if in_order { "the order of the ids" } else { "not even the order of the ids" };
    notes.push(format!(
        "`{}` has no scores, and the reference gives every token the same: llama.cpp joins from left to right, \
         the model by its merges, of which {order} tells; with `tokenizer.model` beside it or `--scores-from-merges` \
         scores are written",
        hf.file
    ));
    if !says_space(keys) && !adds_space(&hf.normalizer) && !adds_space(&hf.pre_tokenizer) {
        notes.push(format!(
            "`{}` puts no space in front of a text, but llama.cpp does where no key says so, and the reference \
             writes one only for `add_prefix_space` in `tokenizer_config.json`",
            hf.file
        ));
    }
}

/// As [`put`], for families of which the reference reads tokenizer.model only. The scores are
/// made of the merges, so that llama.cpp joins in their order. Added tokens lie where the files state, as beside a
/// tokenizer.model.
pub(super) fn put_ranked(
    input: &Input<'_>,
    hf: &HfTokenizer,
    ctx: &VocabContext,
    style: spm::Style,
    keys: &mut Keys,
    notes: &mut Vec<String>,
) -> Result<(), VocabError> {
    notes.push(format!(
        "no `tokenizer.model`, without which the reference stops: the vocabulary comes from `{}`, scores from its merges",
        hf.file
    ));
    let mut table = ranked_tokens(input, hf, ctx, style, notes)?;
    notes.extend(table.pad_to(ctx.embedding_rows, Some(spm::SCORE_OF_NONE)));
    check_rows(table.len(), ctx)?;
    keys.put(keys::MODEL, "llama");
    keys.put(keys::PRE, if style == spm::Style::ChatGlm3 { "chatglm-spm" } else { "default" });
    let n_tokens = table.len();
    table.put(keys);
    // What llama.cpp does where nothing is said is to put a space in front.
    if !adds_space(&hf.normalizer) && !adds_space(&hf.pre_tokenizer) {
        keys.put(keys::ADD_SPACE_PREFIX, false);
    }
    let options = special::Options { n_vocab: Some(n_tokens), ..Default::default() };
    special::put(input, Some(hf), &options, n_tokens, keys, notes)
}

/// The model's tokens with scores by merges, then the added ones.
fn ranked_tokens(
    input: &Input<'_>,
    hf: &HfTokenizer,
    ctx: &VocabContext,
    style: spm::Style,
    notes: &mut Vec<String>,
) -> Result<TokenTable, VocabError> {
    let ids = bpe::ids_of(hf)?;
    bpe::check_merges(hf, &ids)?;
    let mut table = tokens(hf, &AddedVocab::default())?;
    rank(&mut table, hf, &ids);
    // SentencePiece calls those that are not special user-defined: found in a text before anything
    // is joined. Those of tokenizer.json keep their scores.
    for token in &hf.added_tokens {
        let id = ids.get(token.content.as_str()).map(|id| *id as usize);
        if let Some(kind) = id.and_then(|id| table.types.get_mut(id)) {
            *kind = if token.special { TokenType::Control } else { TokenType::UserDefined } as i32;
        }
    }
    if style == spm::Style::ChatGlm3 {
        return spm::chatglm3(table, ctx);
    }
    let mut added = spm::listed_tokens(input)?;
    for token in hf.added_tokens.iter().filter(|token| !ids.contains_key(token.content.as_str())) {
        added.extend(token.id.map(|id| (hf.file, u64::from(id), token.content.clone(), token.special)));
    }
    let n_known =
        added.iter().map(|(_, id, ..)| id.saturating_add(1)).max().unwrap_or(0).max(table.len() as u64);
    let n_tokens = bpe::slots_len(ctx.vocab_size.unwrap_or(n_known), "config.json")?;
    if n_tokens < table.len() {
        return Err(VocabError::VocabTooLarge {
            token: String::from_utf8_lossy(&table.texts[n_tokens]).into_owned(),
            id: n_tokens as u64,
            vocab_size: n_tokens as u64,
        });
    }
    check_rows(n_tokens, ctx)?;
    for id in table.len()..n_tokens {
        table.push_scored(format!("[PAD{id}]"), TokenType::Unused, spm::SCORE_OF_NONE);
    }
    for (file, id, text, special) in added {
        if ids.get(text.as_str()).is_some_and(|own| u64::from(*own) == id) {
            let at = ids[text.as_str()] as usize;
            table.types[at] = if special { TokenType::Control } else { TokenType::UserDefined } as i32;
            continue;
        }
        let kind = if special { TokenType::Control } else { TokenType::UserDefined };
        spm::set(&mut table, file, id, &text, (kind, SCORE), notes);
    }
    Ok(table)
}

/// Whether a step, or one of a sequence, puts a space in front of a text.
fn adds_space(step: &Json) -> bool {
    match step.get("type").and_then(Json::as_str) {
        Some("Prepend") => true,
        Some("Metaspace") => {
            let scheme = step.get("prepend_scheme").and_then(Json::as_str);
            scheme
                .map_or(step.get("add_prefix_space") != Some(&Json::Bool(false)), |scheme| scheme != "never")
        }
        Some("Sequence") => ["normalizers", "pretokenizers"]
            .into_iter()
            .filter_map(|key| step.get(key)?.as_array())
            .flatten()
            .any(adds_space),
        _ => false,
    }
}

/// Gemma 4: tokens as of a llama tokenizer, merges, and a name of its own.
///
/// Source: `Gemma4Model.set_vocab` in `conversion/gemma.py`.
pub(super) fn put_gemma4(
    input: &Input<'_>,
    hf: &HfTokenizer,
    ctx: &VocabContext,
    keys: &mut Keys,
    notes: &mut Vec<String>,
) -> Result<(), VocabError> {
    /// Control tokens that programs want to see.
    const VISIBLE: [&str; 7] = [
        "<|channel>",
        "<channel|>",
        "<|tool_call>",
        "<tool_call|>",
        "<|tool_response>",
        "<tool_response|>",
        "<|\"|>",
    ];
    hf.needs_kind("BPE")?;
    let mut table = table(input, hf, ctx, notes)?;
    for (text, kind) in table.texts.iter().zip(&mut table.types) {
        if VISIBLE.iter().any(|visible| visible.as_bytes() == text) {
            *kind = TokenType::UserDefined as i32;
        }
    }
    keys.put(keys::MODEL, "gemma4");
    let n_tokens = table.len();
    table.put(keys);
    keys.put(keys::MERGES, Array::String(bpe::merges(hf.model.merges.0.clone(), notes).into()));
    special::put(input, Some(hf), &special::Options::default(), n_tokens, keys, notes)?;
    keys.put(keys::ADD_SPACE_PREFIX, false);
    keys.put(keys::ADD_BOS, true);
    Ok(())
}

/// Xverse: no scores, and a name for the token that is a zero byte.
///
/// Source: `XverseModel.set_vocab` in `conversion/xverse.py`.
pub(super) fn put_xverse(
    input: &Input<'_>,
    hf: &HfTokenizer,
    ctx: &VocabContext,
    keys: &mut Keys,
    notes: &mut Vec<String>,
) -> Result<(), VocabError> {
    hf.needs_kind("BPE")?;
    let ids = bpe::ids_of(hf)?;
    let added = AddedVocab::read(input, hf, &ids)?;
    let mut table = table(input, hf, ctx, notes)?;
    table.scores.clear();
    for (id, (text, kind)) in table.texts.iter_mut().zip(&mut table.types).enumerate() {
        let token = u32::try_from(id).ok().and_then(|id| added.by_id.get(&id));
        if text.as_slice() == b"\0" {
            *text = b"<b'\\x00'>".to_vec();
            *kind = TokenType::Byte as i32;
        } else if *kind != TokenType::Byte as i32 && *kind != TokenType::Unused as i32 {
            *kind = match token {
                Some(token) if token.special => TokenType::Control,
                Some(_) => TokenType::UserDefined,
                None => TokenType::Normal,
            } as i32;
        }
    }
    keys.put(keys::MODEL, "llama");
    keys.put(keys::PRE, "default");
    let n_tokens = table.len();
    table.put(keys);
    let options = special::Options { n_vocab: Some(n_tokens), ..Default::default() };
    special::put(input, Some(hf), &options, n_tokens, keys, notes)
}

/// The checked tokens, as many as the embedding has rows.
fn table(
    input: &Input<'_>,
    hf: &HfTokenizer,
    ctx: &VocabContext,
    notes: &mut Vec<String>,
) -> Result<TokenTable, VocabError> {
    let ids = bpe::ids_of(hf)?;
    bpe::check_merges(hf, &ids)?;
    let mut added = AddedVocab::read(input, hf, &ids)?;
    notes.append(&mut added.notes);
    let mut table = tokens(hf, &added)?;
    if let Some(vocab_size) = ctx.vocab_size.filter(|n| *n < table.len() as u64) {
        let last = table.len() - 1;
        return Err(VocabError::VocabTooLarge {
            token: String::from_utf8_lossy(&table.texts[last]).into_owned(),
            id: last as u64,
            vocab_size,
        });
    }
    check_rows(table.len(), ctx)?;
    notes.extend(table.pad_to(ctx.embedding_rows, Some(SCORE)));
    Ok(table)
}

/// The model's tokens by id, then the tokens added behind them.
fn tokens(hf: &HfTokenizer, added: &AddedVocab) -> Result<TokenTable, VocabError> {
    let n_model = hf.model.vocab.0.len();
    let missing = |id: usize| VocabError::MissingId { file: hf.file, id: id as u64, tokens: n_model as u64 };
    let mut by_id: Vec<Option<&str>> = vec![None; n_model];
    for (text, id) in &hf.model.vocab.0 {
        let slot = by_id.get_mut(*id as usize);
        // An id beyond the end means that one before it is free.
        *slot.ok_or_else(|| {
            let taken: HashSet<u32> = hf.model.vocab.0.iter().map(|(_, id)| *id).collect();
            missing((0..).find(|id| !taken.contains(id)).unwrap_or_default() as usize)
        })? = Some(text);
    }
    let specials: HashSet<&str> = added.specials.iter().map(String::as_str).collect();
    let mut table = TokenTable::default();
    for (id, text) in by_id.into_iter().enumerate() {
        let text = text.ok_or_else(|| missing(id))?;
        let kind = match text {
            _ if is_byte(text) => TokenType::Byte,
            _ if specials.contains(text) => TokenType::Control,
            _ => TokenType::Normal,
        };
        table.push_scored(text, kind, SCORE);
    }
    for (id, token) in added.by_id.range(u32::try_from(n_model).unwrap_or(u32::MAX)..) {
        if *id as usize != table.len() {
            return Err(missing(table.len()));
        }
        let special = specials.contains(token.content.as_str());
        let kind = if special { TokenType::Control } else { TokenType::UserDefined };
        table.push_scored(token.content.as_str(), kind, SCORE);
    }
    Ok(table)
}

/// Whether a token stands for a byte: `<0x0A>`.
fn is_byte(text: &str) -> bool {
    let digits = text.strip_prefix("<0x").and_then(|rest| rest.strip_suffix('>'));
    digits.is_some_and(|digits| digits.len() == 2 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

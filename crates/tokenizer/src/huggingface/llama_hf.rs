//! A llama tokenizer as tokenizer.json, without tokenizer.model: `tokenizer.ggml.model` = `llama`.
//!
//! That file lacks the model's scores, but its merges are in their order. The reference gives all tokens an
//! equal score, and llama.cpp then prefers merges by position instead.
//!
//! Source: `_set_vocab_llama_hf` in `conversion/base.py`, `LlamaHfVocab` in
//! `gguf-py/gguf/vocab.py`.

use std::collections::HashSet;

use gguf_container::Array;
use serde_json::Value as Json;

use super::added::{AddedVocab, Ids};
use super::error::VocabError;
use super::hf::{HfTokenizer, step_type, steps};
use super::token_table::TokenTable;
use super::vocab_ids;
use super::writer::TokenizerWriter;
use super::{bpe, special, spm};
use crate::keys;
use crate::token_type::TokenType;

const SCORE: f32 = -1000.0;

impl TokenizerWriter<'_> {
    /// Like [`TokenizerWriter::llama_hf`], for a llama tokenizer that was read already.
    pub fn llama_hf_of(&mut self, hf: &HfTokenizer) -> Result<(), VocabError> {
        let ids = vocab_ids::ids_of(hf)?;
        let mut table = table(self, hf, &ids)?;
        if self.ctx.equal_scores {
            warn_of_losses(self, hf);
        } else {
            rank(&mut table, hf, &ids);
            note_scores(self, hf);
            if !self.has(keys::ADD_SPACE_PREFIX) && !puts_space_in_front(hf) {
                self.set(keys::ADD_SPACE_PREFIX, false);
            }
        }
        let n_tokens = self.set_vocab("llama", "default", table);
        let options = special::SpecialOptions { n_vocab: Some(n_tokens), ..Default::default() };
        special::write_keys(self, Some(hf), &options, n_tokens)
    }
}

/// Sets scores from merges: the negative index of the first merge that produces a token. llama.cpp joins the
/// pair whose token has the highest score, so the earliest merge is applied first.
fn rank(table: &mut TokenTable, hf: &HfTokenizer, ids: &Ids<'_>) {
    let mut joined = String::new();
    // Backwards, so that the first of several merges into one token wins.
    for (rank, (left, right)) in hf.model.merges.0.iter().enumerate().rev() {
        joined.clear();
        joined.push_str(left);
        joined.push_str(right);
        if let Some(id) = ids.get(joined.as_str()) {
            table.scores[*id as usize] = -(rank as f32);
        }
    }
}

/// Warns of differences between llama.cpp and the model if the keys are the reference's.
fn warn_of_losses(writer: &mut TokenizerWriter<'_>, hf: &HfTokenizer) {
    writer.warn(format!(
        "`{}` has no scores, and all tokens get the same one: llama.cpp then merges from left to right instead of in the \
            order of the merges, so text is tokenized differently than in training",
        hf.file
    ));
    if !writer.has(keys::ADD_SPACE_PREFIX) && !puts_space_in_front(hf) {
        writer.warn(format!(
            "`{}` does not add a space before a text, but llama.cpp does; set `add_prefix_space` to false in \
                `tokenizer_config.json`",
            hf.file
        ));
    }
}

fn note_scores(writer: &mut TokenizerWriter<'_>, hf: &HfTokenizer) {
    writer.note(format!(
        "missing `tokenizer.model`: using the vocabulary of `{}`, with scores from its merges",
        hf.file
    ));
}

/// Like [`write_keys`], for families of which the reference only reads tokenizer.model. Scores are derived
/// from merges, so that llama.cpp joins in their order. Added tokens have the ids of the files.
pub(super) fn write_ranked(
    writer: &mut TokenizerWriter<'_>,
    hf: &HfTokenizer,
    style: spm::SpmStyle,
) -> Result<(), VocabError> {
    note_scores(writer, hf);
    let mut table = ranked_tokens(writer, hf, style)?;
    writer.pad_to_rows(&mut table, Some(spm::SCORE_OF_NONE))?;
    let n_tokens = writer.set_vocab("llama", style.pre(), table);
    // llama.cpp prepends a space by default.
    if !puts_space_in_front(hf) {
        writer.set(keys::ADD_SPACE_PREFIX, false);
    }
    let options = special::SpecialOptions { n_vocab: Some(n_tokens), ..Default::default() };
    special::write_keys(writer, Some(hf), &options, n_tokens)
}

/// The model's tokens with scores from merges, then added ones.
fn ranked_tokens(
    writer: &mut TokenizerWriter<'_>,
    hf: &HfTokenizer,
    style: spm::SpmStyle,
) -> Result<TokenTable, VocabError> {
    let ids = vocab_ids::ids_of(hf)?;
    vocab_ids::check_merges(hf, &ids)?;
    let mut table = tokens(hf, &AddedVocab::default())?;
    rank(&mut table, hf, &ids);
    // SentencePiece treats those that are not special as user-defined: matched before joining. Those of
    // tokenizer.json keep their scores.
    for token in &hf.added_tokens {
        let id = ids.get(token.content.as_str()).map(|id| *id as usize);
        if let Some(kind) = id.and_then(|id| table.types.get_mut(id)) {
            *kind = TokenType::for_added(token.special);
        }
    }
    if let spm::SpmStyle::SpecialsAfterPieces(after) = style {
        return spm::with_specials(writer, table, after);
    }
    // After the model's own tokens: those of tokenizer_config.json, then those only in tokenizer.json.
    let mut added = spm::listed_tokens(writer.input)?;
    for token in hf.added_tokens.iter().filter(|token| !ids.contains_key(token.content.as_str())) {
        added.extend(token.id.map(|id| (hf.file, u64::from(id), token.content.clone(), token.special)));
    }
    let n_known =
        added.iter().map(|(_, id, ..)| id.saturating_add(1)).max().unwrap_or(0).max(table.len() as u64);
    let n_tokens = bpe::slots_len(writer.ctx.vocab_size.unwrap_or(n_known), "config.json")?;
    if n_tokens < table.len() {
        return Err(VocabError::VocabTooLarge {
            token: String::from_utf8_lossy(&table.texts[n_tokens]).into_owned(),
            id: n_tokens as u64,
            vocab_size: n_tokens as u64,
        });
    }
    writer.check_rows(n_tokens)?;
    table.fill(n_tokens, Some(spm::SCORE_OF_NONE));
    for (file, id, text, special) in added {
        // A token of the model keeps the score of its merge; only its type changes.
        if let Some(own) = ids.get(text.as_str()).filter(|own| u64::from(**own) == id) {
            table.types[*own as usize] = TokenType::for_added(special);
            continue;
        }
        let kind = TokenType::for_added(special);
        spm::set(writer, &mut table, file, id, &text, (kind, SCORE));
    }
    Ok(table)
}

/// True if the tokenizer prepends a space to a text. Older files do it in the normalizer (`Prepend`), newer
/// ones in the pre-tokenizer (`Metaspace`).
fn puts_space_in_front(hf: &HfTokenizer) -> bool {
    let adds_space = |step: &Json| match step_type(step) {
        "Prepend" => true,
        "Metaspace" => {
            let scheme = step.get("prepend_scheme").and_then(Json::as_str);
            scheme
                .map_or(step.get("add_prefix_space") != Some(&Json::Bool(false)), |scheme| scheme != "never")
        }
        _ => false,
    };
    [&hf.normalizer, &hf.pre_tokenizer].into_iter().flat_map(steps).any(adds_space)
}

impl TokenizerWriter<'_> {
    /// A llama tokenizer as tokenizer.json, with its merges, under another name in `tokenizer.ggml.model`.
    /// Tokens with texts in `visible` are text even if the file marks them as control tokens, because
    /// programs need to see them.
    pub fn llama_with_merges(&mut self, model: &str, visible: &[&str]) -> Result<(), VocabError> {
        let mut hf = self.tokenizer_json()?;
        hf.needs_kind("BPE")?;
        let mut table = table(self, &hf, &vocab_ids::ids_of(&hf)?)?;
        for (text, kind) in table.texts.iter().zip(&mut table.types) {
            if visible.iter().any(|visible| visible.as_bytes() == text) {
                *kind = TokenType::UserDefined;
            }
        }
        let n_tokens = self.set_vocab(model, "", table);
        let merges = bpe::merges(self, std::mem::take(&mut hf.model.merges.0));
        self.set(keys::MERGES, Array::String(merges.into()));
        special::write_keys(self, Some(&hf), &special::SpecialOptions::default(), n_tokens)
    }

    /// A BPE as tokenizer.json, written as a llama tokenizer without scores, with a name for the token that
    /// is a zero byte.
    ///
    /// Source: `XverseModel.set_vocab` in `conversion/xverse.py`.
    pub fn llama_without_scores(&mut self) -> Result<(), VocabError> {
        let hf = &self.tokenizer_json()?;
        hf.needs_kind("BPE")?;
        let ids = vocab_ids::ids_of(hf)?;
        let added = AddedVocab::read(self.input, hf, &ids)?;
        let mut table = table(self, hf, &ids)?;
        table.scores.clear();
        for (id, (text, kind)) in table.texts.iter_mut().zip(&mut table.types).enumerate() {
            let token = u32::try_from(id).ok().and_then(|id| added.by_id.get(&id));
            // A zero byte would end the text in C; the reference spells it like Python.
            if text.as_slice() == b"\0" {
                *text = b"<b'\\x00'>".to_vec();
                *kind = TokenType::Byte;
            } else if *kind != TokenType::Byte && *kind != TokenType::Unused {
                *kind = match token {
                    Some(token) if token.special => TokenType::Control,
                    Some(_) => TokenType::UserDefined,
                    None => TokenType::Normal,
                };
            }
        }
        let n_tokens = self.set_vocab("llama", "default", table);
        let options = special::SpecialOptions { n_vocab: Some(n_tokens), ..Default::default() };
        special::write_keys(self, Some(hf), &options, n_tokens)
    }
}

/// Checked tokens, padded to the rows of the embedding.
fn table(
    writer: &mut TokenizerWriter<'_>,
    hf: &HfTokenizer,
    ids: &Ids<'_>,
) -> Result<TokenTable, VocabError> {
    vocab_ids::check_merges(hf, ids)?;
    let mut added = AddedVocab::read(writer.input, hf, ids)?;
    writer.vocab.notes.append(&mut added.notes);
    let mut table = tokens(hf, &added)?;
    if let Some(vocab_size) = writer.ctx.vocab_size.filter(|n| *n < table.len() as u64) {
        let last = table.len() - 1;
        return Err(VocabError::VocabTooLarge {
            token: String::from_utf8_lossy(&table.texts[last]).into_owned(),
            id: last as u64,
            vocab_size,
        });
    }
    writer.pad_to_rows(&mut table, Some(SCORE))?;
    Ok(table)
}

/// The model's tokens by id, followed by added tokens.
fn tokens(hf: &HfTokenizer, added: &AddedVocab) -> Result<TokenTable, VocabError> {
    let n_model = hf.model.vocab.0.len();
    let missing = |id: usize| VocabError::MissingId { file: hf.file, id: id as u64, tokens: n_model as u64 };
    let mut by_id: Vec<Option<&str>> = vec![None; n_model];
    for (text, id) in &hf.model.vocab.0 {
        let slot = by_id.get_mut(*id as usize);
        // An id beyond the end means that an earlier one is free.
        *slot.ok_or_else(|| {
            let taken: HashSet<u32> = hf.model.vocab.0.iter().map(|(_, id)| *id).collect();
            missing((0..).find(|id| !taken.contains(id)).unwrap_or_default() as usize)
        })? = Some(text);
    }
    let specials: HashSet<&str> = added.specials.iter().map(String::as_str).collect();
    let mut table = TokenTable::default();
    for (id, text) in (0..).zip(by_id) {
        let text = text.ok_or_else(|| missing(id as usize))?;
        let kind = match (text, added.by_id.get(&id)) {
            _ if is_byte(text) => TokenType::Byte,
            _ if specials.contains(text) => TokenType::Control,
            // The reference leaves these as ordinary text, in which llama.cpp does not find them.
            (_, Some(token)) if token.content == text => TokenType::for_added(token.special),
            _ => TokenType::Normal,
        };
        table.push_scored(text, kind, SCORE);
    }
    // Added tokens must follow without a gap: the format of a llama tokenizer has no free ids.
    for (id, token) in added.by_id.range(u32::try_from(n_model).unwrap_or(u32::MAX)..) {
        if *id as usize != table.len() {
            return Err(missing(table.len()));
        }
        let special = specials.contains(token.content.as_str());
        let kind = TokenType::for_added(special);
        table.push_scored(token.content.as_str(), kind, SCORE);
    }
    Ok(table)
}

/// True for a byte token such as `<0x0A>`.
fn is_byte(text: &str) -> bool {
    let digits = text.strip_prefix("<0x").and_then(|rest| rest.strip_suffix('>'));
    digits.is_some_and(|digits| digits.len() == 2 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

//! Unigram models (T5, XLM-RoBERTa): `tokenizer.ggml.model` = `t5`.
//!
//! The best segmentation of a text has the highest sum of scores. In addition to pieces and scores, the file
//! describes the normalization: a compiled table of replacements (`precompiled_charsmap` of SentencePiece),
//! whether runs of spaces are collapsed, and whether a space is prepended.
//!
//! Source: `T5Model.set_vocab` in `conversion/t5.py`, `BertModel._xlmroberta_set_vocab` in
//! `conversion/bert.py`.

use gguf_container::Array;
use serde_json::Value as Json;

use super::added::AddedVocab;
use super::base64;
use super::error::VocabError;
use super::hf::{HfTokenizer, malformed, steps, tokenizer_config};
use super::spm::{self, SCORE_OF_NONE, SpmStyle};
use super::spm_model::{SpmModel, SpmModelType};
use super::token_table::TokenTable;
use super::vocab_ids;
use super::writer::TokenizerWriter;
use super::{bpe, special};
use crate::keys;
use crate::token_type::TokenType;

/// File names of SentencePiece unigram models, in the reference's order.
pub(super) const T5_FILES: [&str; 2] = ["tokenizer.model", "spiece.model"];
/// File name of XLM-RoBERTa's model, although it is a unigram.
const FAIRSEQ_FILE: &str = "sentencepiece.bpe.model";

pub(crate) struct Normalization {
    /// True if a space is added before a text.
    pub add_space_prefix: bool,
    /// True if runs of spaces are collapsed.
    pub remove_extra_whitespaces: bool,
    /// Compiled replacements; may be empty.
    pub charsmap: Vec<u8>,
}

impl Normalization {
    fn of(model: &SpmModel<'_>) -> Self {
        Normalization {
            add_space_prefix: model.add_dummy_prefix,
            remove_extra_whitespaces: model.remove_extra_whitespaces,
            charsmap: model.charsmap.to_vec(),
        }
    }
}

impl TokenizerWriter<'_> {
    /// Unigram, or SentencePiece BPE if the model is one: a SentencePiece model under one of two names, else
    /// tokenizer.json, which the reference does not read.
    pub fn unigram(&mut self) -> Result<(), VocabError> {
        let found = T5_FILES.into_iter().find_map(|file| self.file(file).map(|bytes| (file, bytes)));
        let Some((file, bytes)) = found else {
            let hf = HfTokenizer::read(self.input)?.ok_or(VocabError::NoTokenizer {
                expected: "`tokenizer.model`; `spiece.model`; `tokenizer.json`",
            })?;
            self.note("using the vocabulary of `tokenizer.json`, because there is no SentencePiece model");
            let (table, normalization) = from_json(self, &hf)?;
            return write_keys(self, table, &normalization, false);
        };
        let model = SpmModel::read(bytes).map_err(|problem| malformed(file, &problem))?;
        match model.kind {
            SpmModelType::Bpe => return spm::write_keys(self, SpmStyle::Plain),
            SpmModelType::Unigram => {}
            other => {
                return Err(VocabError::NotSupported {
                    subject: format!("`{file}`: a {} model", other.name()),
                });
            }
        }
        let vocab_size = self.ctx.vocab_size.unwrap_or(model.pieces.len() as u64);
        if let Some(piece) = usize::try_from(vocab_size).ok().and_then(|size| model.pieces.get(size)) {
            return Err(VocabError::VocabTooLarge {
                token: piece.text.to_owned(),
                id: vocab_size,
                vocab_size,
            });
        }
        let n_tokens = bpe::slots_len(vocab_size, "config.json")?;
        self.check_rows(n_tokens)?;
        let mut table = spm::pieces(&model, n_tokens);
        spm::added_tokens_json(self, &mut table)?;
        write_keys(self, table, &Normalization::of(&model), false)
    }

    /// Unigram of `tokenizer.model`, whose last ids are special tokens that the family's code adds.
    pub fn unigram_with_specials(&mut self, specials: &[&str]) -> Result<(), VocabError> {
        let file = T5_FILES[0];
        let bytes = self.file(file).ok_or(VocabError::NoTokenizer { expected: "`tokenizer.model`" })?;
        let model = SpmModel::read(bytes).map_err(|problem| malformed(file, &problem))?;
        if model.kind != SpmModelType::Unigram {
            return Err(VocabError::NotSupported {
                subject: format!("`{file}`: a {} model", model.kind.name()),
            });
        }
        let mut table = spm::tokens(self, &model)?;
        let first = table.len().saturating_sub(specials.len());
        if model.pieces.len() > first {
            self.note(format!("`{file}`: special tokens replace the pieces from {first} on"));
        }
        for (id, text) in (first as u64..).zip(specials) {
            spm::set(self, &mut table, file, id, text, (TokenType::Control, spm::SCORE_OF_ADDED));
        }
        let normalization = Normalization::of(&model);
        self.set_vocab("t5", "default", table);
        self.set(keys::ADD_SPACE_PREFIX, normalization.add_space_prefix);
        self.set(keys::REMOVE_EXTRA_WHITESPACES, normalization.remove_extra_whitespaces);
        self.set(keys::PRECOMPILED_CHARSMAP, Array::U8(normalization.charsmap));
        self.set(keys::ADD_BOS, false);
        self.set(keys::ADD_EOS, false);
        Ok(())
    }

    /// Unigram with the ids of fairseq, which counts special tokens first: from the SentencePiece model,
    /// whose ids differ from the network's, else from tokenizer.json, whose ids are right. `mask` is the id
    /// of a mask token that the model lacks.
    pub fn fairseq_unigram(&mut self, mask: Option<usize>) -> Result<(), VocabError> {
        let (mut table, normalization) = fairseq(self)?;
        // tokenizer.json has the mask token; in a model it replaces a filler, if there is room.
        if let Some(mask) = mask
            && self.file(FAIRSEQ_FILE).is_some()
        {
            self.pad_to_rows(&mut table, Some(SCORE_OF_NONE))?;
            if table.len() > mask {
                table.texts[mask] = b"<mask>".to_vec();
                table.scores[mask] = 0.0;
                table.types[mask] = TokenType::Control;
            }
        }
        write_keys(self, table, &normalization, true)
    }
}

fn fairseq(writer: &mut TokenizerWriter<'_>) -> Result<(TokenTable, Normalization), VocabError> {
    let Some(bytes) = writer.file(FAIRSEQ_FILE) else {
        let hf = HfTokenizer::read(writer.input)?
            .ok_or(VocabError::NoTokenizer { expected: "`sentencepiece.bpe.model`; `tokenizer.json`" })?;
        return from_json(writer, &hf);
    };
    let model = SpmModel::read(bytes).map_err(|problem| malformed(FAIRSEQ_FILE, &problem))?;
    if model.kind != SpmModelType::Unigram {
        return Err(VocabError::NotSupported {
            subject: format!(
                "`{FAIRSEQ_FILE}`: expected a unigram model for this architecture, found {}",
                model.kind.name()
            ),
        });
    }
    let vocab_size = writer.ctx.vocab_size.unwrap_or(0).max(model.pieces.len() as u64);
    let n_tokens = bpe::slots_len(vocab_size, "config.json")?;
    let mut listed = spm::pieces(&model, n_tokens);
    // The network counts <s>, <pad>, </s>, <unk> first, the model <unk>, <s>, </s>: pieces from the fourth on
    // move by one, and one of the fillers after them is lost.
    let mut table = TokenTable::default();
    for (text, kind) in [
        ("<s>", TokenType::Control),
        ("<pad>", TokenType::Control),
        ("</s>", TokenType::Control),
        ("<unk>", TokenType::Unknown),
    ] {
        table.push_scored(text, kind, 0.0);
    }
    let moved = 3..listed.len().saturating_sub(1).max(3).min(listed.len());
    table.texts.extend(listed.texts.drain(moved.clone()));
    table.types.extend(listed.types.drain(moved.clone()));
    table.scores.extend(listed.scores.drain(moved));
    writer.check_rows(table.len())?;
    Ok((table, Normalization::of(&model)))
}

/// Tokens and normalization of a unigram in tokenizer.json.
fn from_json(
    writer: &mut TokenizerWriter<'_>,
    hf: &HfTokenizer,
) -> Result<(TokenTable, Normalization), VocabError> {
    hf.needs_kind("Unigram")?;
    let scores = &hf.model.vocab.1;
    let ids = vocab_ids::ids_of(hf)?;
    let mut added = AddedVocab::read(writer.input, hf, &ids)?;
    writer.vocab.notes.append(&mut added.notes);
    let n_pieces = hf.model.vocab.0.len() as u64;
    let vocab_size = writer.ctx.vocab_size.unwrap_or(0).max(n_pieces);
    let n_tokens = bpe::slots_len(vocab_size, hf.file)?;
    // `added_vocab.get(unk_token)`, else the model's own id, else XLM-RoBERTa's default.
    let unknown = added
        .by_id
        .iter()
        .find(|(_, token)| added.unknown.as_deref() == Some(token.content.as_str()))
        .map(|(id, _)| *id)
        .or(hf.model.unk_id)
        .unwrap_or(3);
    let mut table = TokenTable::default();
    for ((text, id), score) in hf.model.vocab.0.iter().zip(scores) {
        let kind = if *id == unknown {
            TokenType::Unknown
        } else if added.specials.iter().any(|special| special == text) {
            TokenType::Control
        } else if added.by_id.contains_key(id) {
            TokenType::UserDefined
        } else {
            TokenType::Normal
        };
        table.push_scored(text.as_str(), kind, *score as f32);
    }
    // The reference fills ids of added tokens only from the unigram's own list, which fillers follow.
    let room = table.len();
    table.fill(n_tokens, Some(SCORE_OF_NONE));
    for (id, token) in &added.by_id {
        let at = *id as usize;
        if at >= n_tokens {
            writer.note(format!(
                "added token `{}` has id {id}, out of range for {n_tokens} tokens: omitted",
                token.content
            ));
        } else if at >= room {
            writer.note(format!(
                "added token `{}` with id {id} is not in the unigram vocabulary and is written as `[PAD{id}]`",
                token.content
            ));
        }
    }
    writer.check_rows(table.len())?;
    let config = tokenizer_config(writer.input)?.unwrap_or_default();
    let charsmap = charsmap_of(&hf.normalizer)?;
    if charsmap.is_empty() && !hf.normalizer.is_null() {
        writer.note(format!(
            "the normalizer of `{}` has no character table; llama.cpp does not normalize text",
            hf.file
        ));
    }
    let normalization = Normalization {
        add_space_prefix: config.get("add_prefix_space").and_then(Json::as_bool).unwrap_or(true),
        // The reference derives it from an unrelated value, but the key matters.
        remove_extra_whitespaces: config
            .get("clean_up_tokenization_spaces")
            .and_then(Json::as_bool)
            .unwrap_or(false),
        charsmap,
    };
    Ok((table, normalization))
}

/// Table of replacements of a normalizer, anywhere in a sequence.
fn charsmap_of(normalizer: &Json) -> Result<Vec<u8>, VocabError> {
    let bad =
        |problem: &str| malformed("tokenizer.json", &format!("`normalizer.precompiled_charsmap`: {problem}"));
    for step in steps(normalizer) {
        let found = match step.get("precompiled_charsmap") {
            Some(Json::String(text)) => base64::decode(text.as_bytes()).ok_or_else(|| bad("not base64"))?,
            Some(Json::Null) | None => continue,
            Some(_) => return Err(bad("not text")),
        };
        if !found.is_empty() {
            return Ok(found);
        }
    }
    Ok(Vec::new())
}

/// Writes the keys; `bert` for models with a number of token types.
fn write_keys(
    writer: &mut TokenizerWriter<'_>,
    mut table: TokenTable,
    normalization: &Normalization,
    bert: bool,
) -> Result<(), VocabError> {
    writer.pad_to_rows(&mut table, Some(SCORE_OF_NONE))?;
    let n_tokens = writer.set_vocab("t5", "default", table);
    writer.set(keys::ADD_SPACE_PREFIX, normalization.add_space_prefix);
    if bert {
        writer.set(keys::TOKEN_TYPE_COUNT, writer.ctx.token_types());
    }
    writer.set(keys::REMOVE_EXTRA_WHITESPACES, normalization.remove_extra_whitespaces);
    writer.set(keys::PRECOMPILED_CHARSMAP, Array::U8(normalization.charsmap.clone()));
    let options = special::SpecialOptions { n_vocab: Some(n_tokens), ..Default::default() };
    writer.special_tokens(&options, n_tokens)
}

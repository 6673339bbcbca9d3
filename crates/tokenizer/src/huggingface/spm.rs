//! SentencePiece models (`tokenizer.model`): `tokenizer.ggml.model` = `llama`.
//!
//! Source: `_set_vocab_sentencepiece` and `_create_vocab_sentencepiece` in `conversion/base.py`;
//! the variants of [`SpmStyle`] are those of single architectures.

use serde_json::Value as Json;

use super::added::looks_special;
use super::error::VocabError;
use super::error::listed_names;
use super::hf::{HfTokenizer, json_object, malformed, tokenizer_config};
use super::spm_model::{SpmModel, SpmModelType};
use super::token_table::TokenTable;
use super::writer::TokenizerWriter;
use super::{bpe, consistency, special};
use crate::TokenizerFiles;
use crate::json::is_truthy;
use crate::keys;
use crate::token_type::TokenType;

const FILE: &str = "tokenizer.model";
/// Score of an id without a piece.
pub(super) const SCORE_OF_NONE: f32 = -10000.0;
/// Score of tokens that were added after the training of the model.
pub(super) const SCORE_OF_ADDED: f32 = -1000.0;

/// Readings of the tokens that are added to tokenizer.model.
#[derive(Debug, Clone, Copy)]
pub enum SpmStyle {
    /// `_set_vocab_sentencepiece`.
    Plain,
    /// tokenizer.json takes precedence; tokens are special only if their file marks them so.
    Merged,
    /// Like [`SpmStyle::Merged`], and a chat model's turn ends with `<|im_end|>`.
    MergedWithTurnEnd,
    /// tokenizer_config.json renames pieces.
    Renamed,
    /// Special tokens after the pieces, known from the family's code.
    SpecialsAfterPieces(&'static SpecialsAfterPieces),
}

/// Special tokens that the code of a family appends to the pieces of a model.
#[derive(Debug)]
pub struct SpecialsAfterPieces {
    /// `tokenizer.ggml.pre`.
    pub pre: &'static str,
    /// Texts of the first pieces, which are named differently in the model.
    pub first: &'static [&'static str],
    /// Texts of the special tokens.
    pub specials: &'static [&'static str],
}

impl SpmStyle {
    pub(super) fn pre(self) -> &'static str {
        match self {
            SpmStyle::SpecialsAfterPieces(after) => after.pre,
            _ => "default",
        }
    }
}

pub(super) fn write_keys(writer: &mut TokenizerWriter<'_>, style: SpmStyle) -> Result<(), VocabError> {
    let bytes = writer.file(FILE).ok_or(VocabError::NoTokenizer { expected: "`tokenizer.model`" })?;
    write_model(writer, bytes, style)
}

/// Like [`write_keys`], for a model that may have another file name.
pub(super) fn write_model(
    writer: &mut TokenizerWriter<'_>,
    bytes: &[u8],
    style: SpmStyle,
) -> Result<(), VocabError> {
    let model = SpmModel::read(bytes).map_err(|problem| malformed(FILE, &problem))?;
    consistency::model_and_json(writer, &model);
    // This style writes the key of the space right after the arrays; others only from tokenizer_config.json.
    let sets_space = matches!(style, SpmStyle::MergedWithTurnEnd);
    let mut turn_end = None;
    let mut table = match style {
        SpmStyle::Plain => tokens(writer, &model)?,
        SpmStyle::SpecialsAfterPieces(after) => {
            with_specials(writer, pieces(&model, model.pieces.len()), after)?
        }
        SpmStyle::Renamed => renamed(writer, &model)?,
        SpmStyle::Merged => merged_tokens(writer, &model, false, &mut turn_end)?,
        SpmStyle::MergedWithTurnEnd => merged_tokens(writer, &model, true, &mut turn_end)?,
    };
    writer.pad_to_rows(&mut table, Some(SCORE_OF_NONE))?;
    mark_added(writer, &mut table)?;
    note_differences(writer, &model);
    writer.without_space = !model.add_dummy_prefix;
    let n_tokens = writer.set_vocab("llama", style.pre(), table);
    if sets_space {
        writer.set(keys::ADD_SPACE_PREFIX, model.add_dummy_prefix);
    }
    let mut options = special::SpecialOptions { n_vocab: Some(n_tokens), ..Default::default() };
    if let Some(id) = turn_end {
        options.replacements.push(("eos", id));
        writer.note(format!("using `<|im_end|>` ({id}) as EOS, which ends a chat turn"));
    }
    writer.special_tokens(&options, n_tokens)
}

/// Sets the types of added tokens of tokenizer.json, and their texts if the model has no piece for their ids.
/// transformers 5 lists them only there; the reference then writes them as ordinary pieces, which llama.cpp
/// does not find in a text.
fn mark_added(writer: &mut TokenizerWriter<'_>, table: &mut TokenTable) -> Result<(), VocabError> {
    let hf = HfTokenizer::read_without_model(writer.input)?;
    let mut marked = Vec::new();
    for token in hf.into_iter().flat_map(|hf| hf.added_tokens) {
        let Some(at) = token.id.and_then(|id| usize::try_from(id).ok()).filter(|at| *at < table.len()) else {
            continue;
        };
        let is_piece = table.types[at] == TokenType::Normal && table.texts[at] == token.content.as_bytes();
        let is_free =
            table.types[at] == TokenType::Unused && table.texts[at] == format!("[PAD{at}]").as_bytes();
        if is_piece || is_free {
            table.types[at] = TokenType::for_added(token.special);
            table.scores[at] = SCORE_OF_ADDED;
            // llama.cpp searches user-defined tokens in the text, which has plain spaces.
            let plain =
                if token.special { token.content.clone() } else { token.content.replace('\u{2581}', " ") };
            table.texts[at] = plain.into_bytes();
            marked.push(format!("`{}`", token.content));
        }
    }
    if !marked.is_empty() {
        writer.note(format!(
            "added tokens of tokenizer.json that `{FILE}` has as ordinary pieces or not at all: {}",
            listed_names(&marked)
        ));
    }
    Ok(())
}

/// Notes differences between llama.cpp's tokenizer and the model.
fn note_differences(writer: &mut TokenizerWriter<'_>, model: &SpmModel<'_>) {
    if model.kind != SpmModelType::Bpe {
        writer.note(format!(
            "`{FILE}` is a {} model, but llama.cpp reads it as BPE: rare words may be tokenized differently \
                than in training",
            model.kind.name()
        ));
    }
    if model.remove_extra_whitespaces {
        writer.note(format!(
            "`{FILE}` collapses repeated spaces, but llama.cpp keeps them: text with repeated spaces is \
                tokenized differently than in training"
        ));
    }
    if !model.charsmap.is_empty() {
        writer.note(format!(
            "`{FILE}` normalizes characters, but llama.cpp does not: text with ligatures or full-width \
                characters is tokenized differently than in training"
        ));
    }
}

/// Pieces of the model by id; free ids up to `n_tokens` become `[PAD{id}]`.
pub(super) fn pieces(model: &SpmModel<'_>, n_tokens: usize) -> TokenTable {
    let mut table = TokenTable::default();
    for piece in model.pieces.iter().take(n_tokens) {
        let kind = match piece.kind {
            // The reference has no branch for these: llama.cpp finds them by their score.
            TokenType::UserDefined => TokenType::Normal,
            kind => kind,
        };
        table.push_scored(piece.text, kind, piece.score);
    }
    table.fill(n_tokens, Some(SCORE_OF_NONE));
    table
}

/// `vocab_size`, or the number of pieces, as a length within the embedding's rows.
fn n_tokens_of(writer: &mut TokenizerWriter<'_>, model: &SpmModel<'_>) -> Result<usize, VocabError> {
    // Python's `or`: a size of 0 counts as missing.
    let vocab_size = writer.ctx.vocab_size.filter(|n| *n != 0).unwrap_or(model.pieces.len() as u64);
    let n_tokens = bpe::slots_len(vocab_size, "config.json")?;
    writer.check_rows(n_tokens)?;
    if model.pieces.len() > n_tokens {
        writer.note(format!(
            "`{FILE}` has {} pieces; those from {n_tokens} on are omitted, because `vocab_size` is {n_tokens}",
            model.pieces.len()
        ));
    }
    Ok(n_tokens)
}

/// Sets an added token, if its id is in range.
pub(super) fn set(
    writer: &mut TokenizerWriter<'_>,
    table: &mut TokenTable,
    file: &str,
    id: u64,
    text: &str,
    (kind, score): (TokenType, f32),
) {
    match usize::try_from(id).ok().filter(|id| *id < table.len()) {
        Some(at) => {
            table.texts[at] = text.as_bytes().to_vec();
            table.types[at] = kind;
            table.scores[at] = score;
        }
        None => writer.note(format!(
            "`{file}`: token `{text}` has id {id}, out of range for {} tokens: omitted",
            table.len()
        )),
    }
}

/// Tokens of added_tokens.json, which override earlier ones.
pub(super) fn added_tokens_json(
    writer: &mut TokenizerWriter<'_>,
    table: &mut TokenTable,
) -> Result<(), VocabError> {
    let file = "added_tokens.json";
    for (text, id) in json_object(writer.input, file)?.unwrap_or_default() {
        let number =
            id.as_u64().ok_or_else(|| malformed(file, &format!("`{text}`: {id} is not a token id")))?;
        set(writer, table, file, number, &text, (TokenType::UserDefined, SCORE_OF_ADDED));
    }
    Ok(())
}

/// Entries of `added_tokens_decoder` in tokenizer_config.json: id, text, and the entry itself.
fn listed(input: &TokenizerFiles<'_>) -> Result<Vec<(u64, String, Json)>, VocabError> {
    let file = "tokenizer_config.json";
    let mut config = tokenizer_config(input)?.unwrap_or_default();
    let Some(Json::Object(listed)) = config.remove("added_tokens_decoder") else { return Ok(Vec::new()) };
    let mut tokens = Vec::with_capacity(listed.len());
    for (id, token) in listed {
        let problem = |text: &str| malformed(file, &format!("`added_tokens_decoder.{id}`: {text}"));
        let number = id.parse::<u64>().map_err(|_| problem("not a token id"))?;
        let text = token.get("content").and_then(Json::as_str).ok_or_else(|| problem("no `content`"))?;
        tokens.push((number, text.to_owned(), token));
    }
    Ok(tokens)
}

/// Tokens listed in tokenizer_config.json: file, id, text, and whether it is special.
pub(super) fn listed_tokens(
    input: &TokenizerFiles<'_>,
) -> Result<Vec<(&'static str, u64, String, bool)>, VocabError> {
    let tokens = listed(input)?.into_iter();
    Ok(tokens.map(|(id, text, token)| ("tokenizer_config.json", id, text, is_special(&token))).collect())
}

/// True if an entry is marked as special.
fn is_special(token: &Json) -> bool {
    token.get("special").is_some_and(is_truthy)
}

/// Pieces, added_tokens.json and tokenizer_config.json, each overriding the previous.
pub(super) fn tokens(
    writer: &mut TokenizerWriter<'_>,
    model: &SpmModel<'_>,
) -> Result<TokenTable, VocabError> {
    let mut table = pieces(model, n_tokens_of(writer, model)?);
    added_tokens_json(writer, &mut table)?;
    let file = "tokenizer_config.json";
    for (id, text, token) in listed(writer.input)? {
        if is_special(&token) || looks_special(&text) {
            set(writer, &mut table, file, id, &text, (TokenType::Control, SCORE_OF_ADDED));
        } else {
            // llama.cpp searches user-defined tokens in the text, which has plain spaces.
            let text = text.replace('\u{2581}', " ");
            set(writer, &mut table, file, id, &text, (TokenType::UserDefined, SCORE_OF_ADDED));
        }
    }
    Ok(table)
}

/// Pieces, then all three files that list added tokens; `turn_end` gets the id of `<|im_end|>`.
fn merged_tokens(
    writer: &mut TokenizerWriter<'_>,
    model: &SpmModel<'_>,
    with_turn_end: bool,
    turn_end: &mut Option<u32>,
) -> Result<TokenTable, VocabError> {
    let mut table = pieces(model, n_tokens_of(writer, model)?);
    if with_turn_end {
        for (text, kind) in table.texts.iter_mut().zip(&mut table.types) {
            if text.starts_with(b"[UNUSED") {
                *kind = TokenType::Unused;
            } else if text.as_slice() == b"\0" {
                // C would read this as an empty text; the reference replaces it by a dragon.
                *text = "\u{1f409}".into();
            }
        }
        // After all others, regardless of their ids.
        for (text, _) in json_object(writer.input, "added_tokens.json")?.unwrap_or_default() {
            table.push_scored(text, TokenType::UserDefined, SCORE_OF_ADDED);
        }
    } else {
        added_tokens_json(writer, &mut table)?;
    }
    let mut all = listed_tokens(writer.input)?;
    // tokenizer.json has the highest precedence.
    let hf = HfTokenizer::read_without_model(writer.input)?;
    for token in hf.into_iter().flat_map(|hf| hf.added_tokens) {
        if let Some(id) = token.id {
            all.push(("tokenizer.json", id.into(), token.content, token.special));
        }
    }
    for (file, id, text, special) in all {
        if with_turn_end && text == "<|im_end|>" {
            *turn_end = u32::try_from(id).ok();
        }
        let kind = TokenType::for_added(special);
        set(writer, &mut table, file, id, &text, (kind, SCORE_OF_ADDED));
    }
    Ok(table)
}

/// Pieces, with names changed by tokenizer_config.json.
fn renamed(writer: &mut TokenizerWriter<'_>, model: &SpmModel<'_>) -> Result<TokenTable, VocabError> {
    let mut table = pieces(model, n_tokens_of(writer, model)?);
    let config = tokenizer_config(writer.input)?.unwrap_or_default();
    let unknown = config.get("unk_token").and_then(Json::as_str);
    for (id, text, token) in listed(writer.input)? {
        let kind = if !is_special(&token) {
            (TokenType::UserDefined, SCORE_OF_NONE)
        } else if unknown == Some(text.as_str()) {
            (TokenType::Unknown, 0.0)
        } else {
            (TokenType::Control, 0.0)
        };
        set(writer, &mut table, "tokenizer_config.json", id, &text, kind);
    }
    Ok(table)
}

/// Pieces, then special tokens that no file lists.
pub(super) fn with_specials(
    writer: &TokenizerWriter<'_>,
    mut table: TokenTable,
    after: &SpecialsAfterPieces,
) -> Result<TokenTable, VocabError> {
    let n_known = table.len() + after.specials.len();
    let n_tokens = bpe::slots_len(writer.ctx.vocab_size.unwrap_or(n_known as u64), "config.json")?;
    if n_tokens < n_known {
        let token = after.specials.last().copied().unwrap_or_default().to_owned();
        let vocab_size = n_tokens as u64;
        return Err(VocabError::VocabTooLarge { token, id: n_known as u64 - 1, vocab_size });
    }
    writer.check_rows(n_tokens)?;
    for (text, name) in table.texts.iter_mut().zip(after.first) {
        *text = (*name).into();
    }
    for text in after.specials {
        table.push_scored(*text, TokenType::Control, 0.0);
    }
    table.fill(n_tokens, Some(0.0));
    Ok(table)
}

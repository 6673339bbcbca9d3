//! SentencePiece models (`tokenizer.model`): `tokenizer.ggml.model` = `llama`.
//!
//! Source: `_set_vocab_sentencepiece` and `_create_vocab_sentencepiece` in `conversion/base.py`.

use serde_json::Value as Json;

use super::error::VocabError;
use super::hf::{HfTokenizer, json_object, malformed, tokenizer_config};
use super::keys::{self, Keys, TokenTable, TokenType};
use super::spm_model::{PieceType, SpmModel, SpmModelType};
use super::{VocabContext, bpe, check_rows, looks_special, special};
use crate::Input;

const FILE: &str = "tokenizer.model";
/// The score of an id that no piece has.
const SCORE_OF_NONE: f32 = -10000.0;
/// The score of tokens that were added after the training of the model.
const SCORE_OF_ADDED: f32 = -1000.0;

/// Puts the keys of a SentencePiece model.
pub(super) fn put(
    input: &Input<'_>,
    ctx: &VocabContext,
    keys: &mut Keys,
    notes: &mut Vec<String>,
) -> Result<(), VocabError> {
    let bytes = input.file(FILE).ok_or(VocabError::NoTokenizer { looked_for: "`tokenizer.model`" })?;
    let model = SpmModel::read(bytes).map_err(|problem| malformed(FILE, &problem))?;
    let mut table = tokens(input, &model, ctx, notes)?;
    notes.extend(table.pad_to(ctx.embedding_rows, Some(SCORE_OF_NONE)));
    check_rows(table.len(), ctx)?;
    note_differences(&model, keys, notes);
    keys.put(keys::MODEL, "llama");
    keys.put(keys::PRE, "default");
    let n_tokens = table.len();
    table.put(keys);
    let hf = HfTokenizer::read_without_model(input)?;
    let options = special::Options { n_vocab: Some(n_tokens), ..Default::default() };
    special::put(input, hf.as_ref(), &options, n_tokens, keys, notes)
}

/// Where llama.cpp's tokenizer does not do what the model says, a person should know.
fn note_differences(model: &SpmModel<'_>, keys: &Keys, notes: &mut Vec<String>) {
    if model.kind != SpmModelType::Bpe {
        notes.push(format!("`{FILE}` is a {} model; llama.cpp reads it as a BPE", model.kind.name()));
    }
    if !model.add_dummy_prefix && !keys.0.iter().any(|(key, _)| key == keys::ADD_SPACE_PREFIX) {
        notes.push(format!(
            "`{FILE}` adds no space in front of a text; llama.cpp does without `add_space_prefix`"
        ));
    }
    if model.remove_extra_whitespaces {
        notes.push(format!("`{FILE}` makes one space of several; llama.cpp keeps them"));
    }
    if model.has_charsmap {
        notes.push(format!("`{FILE}` normalizes characters; llama.cpp takes them as they are"));
    }
}

/// Pieces, then added_tokens.json, then tokenizer_config.json, each over what was there before.
fn tokens(
    input: &Input<'_>,
    model: &SpmModel<'_>,
    ctx: &VocabContext,
    notes: &mut Vec<String>,
) -> Result<TokenTable, VocabError> {
    let vocab_size = ctx.vocab_size.filter(|n| *n != 0).unwrap_or(model.pieces.len() as u64);
    let n_tokens = bpe::slots_len(vocab_size, "config.json")?;
    check_rows(n_tokens, ctx)?;
    let mut table = TokenTable::default();
    for piece in model.pieces.iter().take(n_tokens) {
        let kind = match piece.kind {
            // The reference has no branch for these: llama.cpp finds them by their score.
            PieceType::Normal | PieceType::UserDefined => TokenType::Normal,
            PieceType::Unknown => TokenType::Unknown,
            PieceType::Control => TokenType::Control,
            PieceType::Unused => TokenType::Unused,
            PieceType::Byte => TokenType::Byte,
        };
        table.push_scored(piece.text, kind, piece.score);
    }
    if model.pieces.len() > n_tokens {
        notes.push(format!(
            "`{FILE}` has {} pieces; those from {n_tokens} on are left out, as `vocab_size` says",
            model.pieces.len()
        ));
    }
    for id in table.len()..n_tokens {
        table.push_scored(format!("[PAD{id}]"), TokenType::Unused, SCORE_OF_NONE);
    }

    let mut set =
        |file: &str, id: u64, text: String, kind: TokenType, notes: &mut Vec<String>| match usize::try_from(
            id,
        )
        .ok()
        .filter(|id| *id < n_tokens)
        {
            Some(at) => {
                table.texts[at] = text.into_bytes();
                table.types[at] = kind as i32;
                table.scores[at] = SCORE_OF_ADDED;
            }
            None => notes.push(format!(
                "`{file}`: token `{text}` has id {id}, but there are {n_tokens} tokens: left out"
            )),
        };
    for (text, id) in json_object(input, "added_tokens.json")?.unwrap_or_default() {
        let number = id
            .as_u64()
            .ok_or_else(|| malformed("added_tokens.json", &format!("`{text}`: {id} is not a token id")))?;
        set("added_tokens.json", number, text, TokenType::UserDefined, notes);
    }
    let config = tokenizer_config(input)?.unwrap_or_default();
    if let Some(listed) = config.get("added_tokens_decoder").and_then(Json::as_object) {
        let file = "tokenizer_config.json";
        for (id, token) in listed {
            let problem = |what: &str| malformed(file, &format!("`added_tokens_decoder.{id}`: {what}"));
            let number = id.parse::<u64>().map_err(|_| problem("not a token id"))?;
            let text = token.get("content").and_then(Json::as_str).ok_or_else(|| problem("no `content`"))?;
            if token.get("special").is_some_and(special::is_true) || looks_special(text) {
                set(file, number, text.to_owned(), TokenType::Control, notes);
            } else {
                set(file, number, text.replace('\u{2581}', " "), TokenType::UserDefined, notes);
            }
        }
    }
    Ok(table)
}

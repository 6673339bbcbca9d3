//! SentencePiece models (`tokenizer.model`): `tokenizer.ggml.model` = `llama`.
//!
//! Source: `_set_vocab_sentencepiece` and `_create_vocab_sentencepiece` in `conversion/base.py`;
//! the variants of [`Style`] are those of single architectures.

use serde_json::Value as Json;

use super::error::VocabError;
use super::hf::{HfTokenizer, json_object, malformed, tokenizer_config};
use super::keys::{self, Keys, TokenTable, TokenType};
use super::spm_model::{PieceType, SpmModel, SpmModelType};
use super::{VocabContext, agree, bpe, check_rows, looks_special, special};
use crate::Input;

const FILE: &str = "tokenizer.model";
/// The score of an id that no piece has.
pub(super) const SCORE_OF_NONE: f32 = -10000.0;
/// The score of tokens that were added after the training of the model.
const SCORE_OF_ADDED: f32 = -1000.0;

/// Whose way of reading added tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// `_set_vocab_sentencepiece`.
    Plain,
    /// `Phi3MiniModel.set_vocab` in `conversion/phi.py`: tokenizer.json has the last word, tokens
    /// are special only if their file says so.
    Phi3,
    /// `InternLM2Model.set_vocab` in `conversion/internlm.py`: as Phi 3, and a chat model's turn
    /// ends with `<|im_end|>`.
    InternLm2,
    /// `ArcticModel.set_vocab` in `conversion/arctic.py`: tokenizer_config.json renames pieces.
    Arctic,
    /// `ChatGLMModel.set_vocab_chatglm3` in `conversion/chatglm.py`: special tokens behind the
    /// pieces, known from the family's code.
    ChatGlm3,
}

/// Puts the keys of a SentencePiece model.
pub(super) fn put(
    input: &Input<'_>,
    ctx: &VocabContext,
    style: Style,
    keys: &mut Keys,
    notes: &mut Vec<String>,
) -> Result<(), VocabError> {
    let bytes = input.file(FILE).ok_or(VocabError::NoTokenizer { looked_for: "`tokenizer.model`" })?;
    let model = SpmModel::read(bytes).map_err(|problem| malformed(FILE, &problem))?;
    agree::model_and_json(input, &model, notes);
    let mut turn_end = None;
    let mut table = match style {
        Style::Plain => tokens(input, &model, ctx, notes)?,
        Style::ChatGlm3 => chatglm3(pieces(&model, model.pieces.len()), ctx)?,
        Style::Arctic => arctic(input, &model, ctx, notes)?,
        Style::Phi3 | Style::InternLm2 => tokens_of_three(input, &model, ctx, style, &mut turn_end, notes)?,
    };
    notes.extend(table.pad_to(ctx.embedding_rows, Some(SCORE_OF_NONE)));
    check_rows(table.len(), ctx)?;
    note_differences(&model, style, keys, notes);
    keys.put(keys::MODEL, "llama");
    keys.put(keys::PRE, if style == Style::ChatGlm3 { "chatglm-spm" } else { "default" });
    let n_tokens = table.len();
    table.put(keys);
    if style == Style::InternLm2 {
        keys.put(keys::ADD_SPACE_PREFIX, model.add_dummy_prefix);
    }
    let hf = HfTokenizer::read_without_model(input)?;
    let mut options = special::Options { n_vocab: Some(n_tokens), ..Default::default() };
    if let Some(id) = turn_end {
        options.replacements.push(("eos", id));
        notes.push(format!("eos is `<|im_end|>` ({id}), so that a chat ends"));
    }
    special::put(input, hf.as_ref(), &options, n_tokens, keys, notes)
}

/// Where llama.cpp's tokenizer does not do what the model says, a person should know.
fn note_differences(model: &SpmModel<'_>, style: Style, keys: &Keys, notes: &mut Vec<String>) {
    if model.kind != SpmModelType::Bpe {
        notes.push(format!("`{FILE}` is a {} model; llama.cpp reads it as a BPE", model.kind.name()));
    }
    if !model.add_dummy_prefix
        && style != Style::InternLm2
        && !keys.0.iter().any(|(key, _)| key == keys::ADD_SPACE_PREFIX)
    {
        notes.push(format!(
            "`{FILE}` adds no space in front of a text; llama.cpp does without `add_space_prefix`"
        ));
    }
    if model.remove_extra_whitespaces {
        notes.push(format!("`{FILE}` makes one space of several; llama.cpp keeps them"));
    }
    if !model.charsmap.is_empty() {
        notes.push(format!("`{FILE}` normalizes characters; llama.cpp takes them as they are"));
    }
}

/// The model's pieces by id, and free ids up to `n_tokens` as `[PAD{id}]`.
pub(super) fn pieces(model: &SpmModel<'_>, n_tokens: usize) -> TokenTable {
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
    for id in table.len()..n_tokens {
        table.push_scored(format!("[PAD{id}]"), TokenType::Unused, SCORE_OF_NONE);
    }
    table
}

/// `vocab_size`, or the number of pieces, as a length that has rows in the embedding.
fn n_tokens_of(
    model: &SpmModel<'_>,
    ctx: &VocabContext,
    notes: &mut Vec<String>,
) -> Result<usize, VocabError> {
    let vocab_size = ctx.vocab_size.filter(|n| *n != 0).unwrap_or(model.pieces.len() as u64);
    let n_tokens = bpe::slots_len(vocab_size, "config.json")?;
    check_rows(n_tokens, ctx)?;
    if model.pieces.len() > n_tokens {
        notes.push(format!(
            "`{FILE}` has {} pieces; those from {n_tokens} on are left out, as `vocab_size` says",
            model.pieces.len()
        ));
    }
    Ok(n_tokens)
}

/// Puts an added token in its place, if there is one.
pub(super) fn set(
    table: &mut TokenTable,
    file: &str,
    id: u64,
    text: &str,
    (kind, score): (TokenType, f32),
    notes: &mut Vec<String>,
) {
    match usize::try_from(id).ok().filter(|id| *id < table.len()) {
        Some(at) => {
            table.texts[at] = text.as_bytes().to_vec();
            table.types[at] = kind as i32;
            table.scores[at] = score;
        }
        None => notes.push(format!(
            "`{file}`: token `{text}` has id {id}, but there are {} tokens: left out",
            table.len()
        )),
    }
}

/// Tokens of added_tokens.json over what was there before.
pub(super) fn added_tokens_json(
    input: &Input<'_>,
    table: &mut TokenTable,
    notes: &mut Vec<String>,
) -> Result<(), VocabError> {
    let file = "added_tokens.json";
    for (text, id) in json_object(input, file)?.unwrap_or_default() {
        let number =
            id.as_u64().ok_or_else(|| malformed(file, &format!("`{text}`: {id} is not a token id")))?;
        set(table, file, number, &text, (TokenType::UserDefined, SCORE_OF_ADDED), notes);
    }
    Ok(())
}

/// What `added_tokens_decoder` of tokenizer_config.json lists: id, text, and the whole entry.
fn listed(input: &Input<'_>) -> Result<Vec<(u64, String, Json)>, VocabError> {
    let file = "tokenizer_config.json";
    let mut config = tokenizer_config(input)?.unwrap_or_default();
    let Some(Json::Object(listed)) = config.remove("added_tokens_decoder") else { return Ok(Vec::new()) };
    let mut tokens = Vec::with_capacity(listed.len());
    for (id, token) in listed {
        let problem = |what: &str| malformed(file, &format!("`added_tokens_decoder.{id}`: {what}"));
        let number = id.parse::<u64>().map_err(|_| problem("not a token id"))?;
        let text = token.get("content").and_then(Json::as_str).ok_or_else(|| problem("no `content`"))?;
        tokens.push((number, text.to_owned(), token));
    }
    Ok(tokens)
}

/// What tokenizer_config.json lists: file, id, text, whether it is special.
pub(super) fn listed_tokens(input: &Input<'_>) -> Result<Vec<(&'static str, u64, String, bool)>, VocabError> {
    let tokens = listed(input)?.into_iter();
    Ok(tokens.map(|(id, text, token)| ("tokenizer_config.json", id, text, is_special(&token))).collect())
}

/// Whether an entry says that it is special.
fn is_special(token: &Json) -> bool {
    token.get("special").is_some_and(special::is_true)
}

/// Pieces, then added_tokens.json, then tokenizer_config.json, each over what was there before.
fn tokens(
    input: &Input<'_>,
    model: &SpmModel<'_>,
    ctx: &VocabContext,
    notes: &mut Vec<String>,
) -> Result<TokenTable, VocabError> {
    let mut table = pieces(model, n_tokens_of(model, ctx, notes)?);
    added_tokens_json(input, &mut table, notes)?;
    let file = "tokenizer_config.json";
    for (id, text, token) in listed(input)? {
        if is_special(&token) || looks_special(&text) {
            set(&mut table, file, id, &text, (TokenType::Control, SCORE_OF_ADDED), notes);
        } else {
            let text = text.replace('\u{2581}', " ");
            set(&mut table, file, id, &text, (TokenType::UserDefined, SCORE_OF_ADDED), notes);
        }
    }
    Ok(table)
}

/// Pieces, then all three files that list added tokens; `turn_end` gets the id of `<|im_end|>`.
fn tokens_of_three(
    input: &Input<'_>,
    model: &SpmModel<'_>,
    ctx: &VocabContext,
    style: Style,
    turn_end: &mut Option<u32>,
    notes: &mut Vec<String>,
) -> Result<TokenTable, VocabError> {
    let mut table = pieces(model, n_tokens_of(model, ctx, notes)?);
    if style == Style::InternLm2 {
        for (text, kind) in table.texts.iter_mut().zip(&mut table.types) {
            if text.starts_with(b"[UNUSED") {
                *kind = TokenType::Unused as i32;
            } else if text.as_slice() == b"\0" {
                // A text that C takes for an empty one.
                *text = "\u{1f409}".into();
            }
        }
        // Behind all others, whatever their ids.
        for text in
            json_object(input, "added_tokens.json")?.unwrap_or_default().into_iter().map(|(text, _)| text)
        {
            table.push_scored(text, TokenType::UserDefined, SCORE_OF_ADDED);
        }
    } else {
        added_tokens_json(input, &mut table, notes)?;
    }
    let mut all = listed_tokens(input)?;
    let hf = HfTokenizer::read_without_model(input)?;
    for token in hf.into_iter().flat_map(|hf| hf.added_tokens) {
        if let Some(id) = token.id {
            all.push(("tokenizer.json", id.into(), token.content, token.special));
        }
    }
    for (file, id, text, special) in all {
        if style == Style::InternLm2 && text == "<|im_end|>" {
            *turn_end = u32::try_from(id).ok();
        }
        let kind = if special { TokenType::Control } else { TokenType::UserDefined };
        set(&mut table, file, id, &text, (kind, SCORE_OF_ADDED), notes);
    }
    Ok(table)
}

/// Pieces, some of which tokenizer_config.json renames.
fn arctic(
    input: &Input<'_>,
    model: &SpmModel<'_>,
    ctx: &VocabContext,
    notes: &mut Vec<String>,
) -> Result<TokenTable, VocabError> {
    let mut table = pieces(model, n_tokens_of(model, ctx, notes)?);
    let config = tokenizer_config(input)?.unwrap_or_default();
    let unknown = config.get("unk_token").and_then(Json::as_str);
    for (id, text, token) in listed(input)? {
        let kind = match is_special(&token) {
            true if unknown == Some(text.as_str()) => (TokenType::Unknown, 0.0),
            true => (TokenType::Control, 0.0),
            false => (TokenType::UserDefined, SCORE_OF_NONE),
        };
        set(&mut table, "tokenizer_config.json", id, &text, kind, notes);
    }
    Ok(table)
}

/// Pieces, then the nine special tokens of ChatGLM 3.
pub(super) fn chatglm3(mut table: TokenTable, ctx: &VocabContext) -> Result<TokenTable, VocabError> {
    const SPECIAL: [&str; 9] = [
        "[MASK]",
        "[gMASK]",
        "[sMASK]",
        "sop",
        "eop",
        "<|system|>",
        "<|user|>",
        "<|assistant|>",
        "<|observation|>",
    ];
    let n_known = table.len() + SPECIAL.len();
    let n_tokens = bpe::slots_len(ctx.vocab_size.unwrap_or(n_known as u64), "config.json")?;
    if n_tokens < n_known {
        let vocab_size = n_tokens as u64;
        return Err(VocabError::VocabTooLarge {
            token: SPECIAL[8].into(),
            id: n_known as u64 - 1,
            vocab_size,
        });
    }
    check_rows(n_tokens, ctx)?;
    for (text, name) in table.texts.iter_mut().zip(["<unk>", "<bos>", "<eos>"]) {
        *text = name.into();
    }
    for text in SPECIAL {
        table.push_scored(text, TokenType::Control, 0.0);
    }
    for id in n_known..n_tokens {
        table.push_scored(format!("[PAD{id}]"), TokenType::Unused, 0.0);
    }
    Ok(table)
}

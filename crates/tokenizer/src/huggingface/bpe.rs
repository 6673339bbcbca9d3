//! Byte-level BPE: `tokenizer.ggml.model` = `gpt2`.
//!
//! Source: `_set_vocab_gpt2` and `get_vocab_base` in `conversion/base.py`.

use gguf_container::Array;
use tokenizers::{Decoder as _, DecoderWrapper};

use super::added::{AddedVocab, looks_special};
use super::error::VocabError;
use super::hf::{HfTokenizer, malformed, read_merges_txt, steps};
use super::token_table::TokenTable;
use super::vocab_ids::{check_merges, ids_of};
use super::writer::TokenizerWriter;
use super::{pre, special};
use crate::keys;
use crate::token_type::TokenType;

/// Differences between the architectures that share this loader.
#[derive(Debug, Clone, Copy)]
pub struct BpeStyle {
    /// `tokenizer.ggml.model`.
    pub model: &'static str,
    /// `tokenizer.ggml.pre`, if it does not depend on the tokenizer.
    pub pre: Option<&'static str>,
    /// Default special ids: name, and the text of an added token.
    pub by_text: &'static [(&'static str, &'static str)],
    /// Default special ids by id.
    pub by_id: &'static [(&'static str, u32)],
    /// Added tokens that are control tokens although their file does not mark them.
    pub control: &'static [&'static str],
    /// Writes added tokens verbatim; they are special only if marked in the file.
    pub plain_added: bool,
    /// Names of special tokens to search; empty for the usual ones.
    pub types: &'static [&'static str],
    /// True if special ids are also read from the config of the model.
    pub ids_of_config: bool,
    /// Name of the pre-tokenizer with which added tokens of spaces are ordinary tokens of U+2581.
    pub escapes_spaces: Option<&'static str>,
}

impl BpeStyle {
    /// `_set_vocab_gpt2`.
    pub const GPT2: BpeStyle = BpeStyle {
        model: "gpt2",
        pre: None,
        by_text: &[],
        by_id: &[],
        control: &[],
        plain_added: false,
        types: &[],
        ids_of_config: true,
        escapes_spaces: None,
    };
}

/// Result of `get_vocab_base`: tokens and the name of the pre-tokenizer.
pub(super) struct Base {
    pub table: TokenTable,
    pub pre: String,
    pub added: AddedVocab,
}

/// Tokens and pre-tokenizer name of a tokenizer that lists its ids.
pub(super) fn base(
    writer: &mut TokenizerWriter<'_>,
    hf: &HfTokenizer,
    style: &BpeStyle,
) -> Result<Base, VocabError> {
    let ids = ids_of(hf)?;
    check_merges(hf, &ids)?;
    writer.vocab.warnings.extend(hf.warnings.iter().cloned());
    let mut added = AddedVocab::read(writer.input, hf, &ids)?;
    writer.vocab.notes.append(&mut added.notes);
    let table = tokens(writer, hf, &mut added, style)?;
    // By precedence: the user's choice, the architecture's, and recognition by contents.
    let pre = match (writer.ctx.pre.clone(), style.pre) {
        (Some(name), _) => {
            pre::note_chosen(writer, &name, hf);
            name
        }
        (None, Some(name)) => {
            pre::note_merges(writer, name, hf);
            name.to_owned()
        }
        (None, None) => pre::recognize(writer, hf, &added, &ids)?,
    };
    Ok(Base { table, pre, added })
}

/// Writes the keys of a byte-level BPE.
pub(super) fn write_keys(
    writer: &mut TokenizerWriter<'_>,
    mut hf: HfTokenizer,
    style: &BpeStyle,
) -> Result<(), VocabError> {
    hf.needs_kind("BPE")?;
    // `SpecialVocab` looks into merges.txt where tokenizer.json lists no merges.
    if hf.model.merges.0.is_empty()
        && let Some(bytes) = writer.file("merges.txt")
    {
        hf.model.merges.0 = read_merges_txt(bytes)?;
    }
    let Base { mut table, pre, added } = base(writer, &hf, style)?;
    if style.escapes_spaces == Some(pre.as_str()) {
        table.escape_spaces();
    }
    writer.pad_to_rows(&mut table, None)?;
    let n_tokens = writer.set_vocab(style.model, &pre, table);
    let merges = merges(writer, std::mem::take(&mut hf.model.merges.0));
    if merges.is_empty() {
        writer.note(format!("`{}` has no merges: all text is split into bytes", hf.file));
    }
    writer.set(keys::MERGES, Array::String(merges.into()));
    // vocab.json and merges.txt do not list special tokens; the reference then only reads the configs.
    let tokenizer_json = Some(&hf).filter(|hf| hf.file == "tokenizer.json");
    let mut options = special::SpecialOptions {
        types: style.types.to_vec(),
        defaults: style.by_id.to_vec(),
        without_config: !style.ids_of_config,
        ..special::SpecialOptions::default()
    };
    for &(name, text) in style.by_text {
        match added.by_id.iter().find(|(_, token)| token.content == text) {
            Some((id, _)) => options.defaults.push((name, *id)),
            None => writer.note(format!(
                "`{}`: missing added token `{text}`, which this architecture uses as `{name}`",
                hf.file
            )),
        }
    }
    special::write_keys(writer, tokenizer_json, &options, n_tokens)
}

/// Tokens by id; free ids below the config's `vocab_size` become `[PAD{id}]`.
fn tokens(
    writer: &mut TokenizerWriter<'_>,
    hf: &HfTokenizer,
    added: &mut AddedVocab,
    style: &BpeStyle,
) -> Result<TokenTable, VocabError> {
    let n_known = hf.model.vocab.0.len()
        + added.by_id.keys().filter(|id| **id as usize >= hf.model.vocab.0.len()).count();
    // The reference's default is the number of tokens, regardless of their ids.
    let vocab_size = writer.ctx.vocab_size.unwrap_or_else(|| {
        let last_named = added.only_named.len() as u64;
        (n_known as u64).max(last_named)
    });
    writer.check_rows(usize::try_from(vocab_size).unwrap_or(usize::MAX))?;
    for id in added.only_named.iter().copied().filter(|id| u64::from(*id) >= vocab_size).collect::<Vec<_>>() {
        if let Some(token) = added.by_id.remove(&id) {
            writer.note(format!(
                "special token `{}` is not in the vocabulary and has no free id: omitted",
                token.content
            ));
        }
    }
    let listed = hf.model.vocab.0.iter().map(|(text, id)| (*id, text.as_str()));
    let listed = listed.chain(added.by_id.iter().map(|(id, token)| (*id, token.content.as_str())));
    let slots = slots(vocab_size, hf.file, listed)?;
    // The decoder converts the byte alphabet to text. The reference encodes and decodes a token with the
    // entire tokenizer; for a token that is matched before the model, only the decoder has an effect.
    let decoder: Option<DecoderWrapper> = match &hf.decoder {
        serde_json::Value::Null => None,
        json => Some(
            serde_json::from_value(json.clone())
                .map_err(|error| malformed(hf.file, &format!("`decoder`: {error}")))?,
        ),
    };
    // The library cuts off the end of a token without checking its length.
    if steps(&hf.decoder).into_iter().any(|step| step.get("stop").is_some_and(|stop| *stop != 0)) {
        let subject = format!("`{}`: a decoder that cuts off the end of tokens", hf.file);
        return Err(VocabError::NotSupported { subject });
    }
    let last = slots.iter().rposition(Option::is_some).unwrap_or(0);
    let holes = slots[..last].iter().filter(|slot| slot.is_none()).count();
    if holes > 0 {
        writer.note(format!(
            "{holes} ids below {last} have no token in `{}`; unused tokens `[PAD...]` are added for them",
            hf.file
        ));
    }
    let mut table = TokenTable::default();
    for (id, slot) in slots.into_iter().enumerate() {
        let Some(text) = slot else {
            table.push(format!("[PAD{id}]"), TokenType::Unused);
            continue;
        };
        let Some(token) = u32::try_from(id).ok().and_then(|id| added.by_id.get(&id)) else {
            table.push(text, TokenType::Normal);
            continue;
        };
        // llama.cpp searches added tokens in plain text, so those stored in the model's alphabet are decoded.
        let mut plain = token.content.clone();
        if style.plain_added {
            table.push(plain, TokenType::for_added(token.special));
            continue;
        }
        if let (false, Some(decoder)) = (token.is_normalized(), &decoder) {
            plain = decoder.decode(vec![plain]).map_err(|error| malformed(hf.file, &error))?;
        }
        if token.special || looks_special(&plain) || style.control.contains(&plain.as_str()) {
            table.push(plain, TokenType::Control);
        } else {
            // Gemma's user-defined tokens contain SentencePiece's space mark, which texts do not.
            table.push(plain.replace('\u{2581}', " "), TokenType::UserDefined);
        }
    }
    Ok(table)
}

/// Token texts by id. Two tokens with one id are an error only if their texts differ: added tokens are often
/// in the model's own list as well.
pub(super) fn slots<'a>(
    vocab_size: u64,
    file: &str,
    listed: impl Iterator<Item = (u32, &'a str)>,
) -> Result<Vec<Option<&'a str>>, VocabError> {
    let mut slots: Vec<Option<&str>> = vec![None; slots_len(vocab_size, file)?];
    for (id, text) in listed {
        match slots.get_mut(id as usize) {
            Some(Some(first)) if *first != text => {
                return Err(VocabError::RepeatedId {
                    id: id.into(),
                    first: (*first).to_owned(),
                    second: text.to_owned(),
                });
            }
            Some(slot) => *slot = Some(text),
            None => {
                return Err(VocabError::VocabTooLarge { token: text.to_owned(), id: id.into(), vocab_size });
            }
        }
    }
    Ok(slots)
}

/// Converts a vocabulary's size to a length. Memory is allocated by this number from a config, so an
/// implausible size is refused.
pub(super) fn slots_len(vocab_size: u64, file: &str) -> Result<usize, VocabError> {
    // Four times the vocabulary of Gemma 3 (2^18), the largest of the architectures here; some 50 MB.
    const MOST: u64 = 1 << 20;
    match usize::try_from(vocab_size) {
        Ok(len) if vocab_size <= MOST => Ok(len),
        _ => Err(malformed(file, &format!("`vocab_size` {vocab_size} is more than {MOST}"))),
    }
}

/// Merges in the reference's form: two tokens separated by a space. A space inside a token (possible in the
/// newer spelling only) becomes its character in the byte alphabet.
pub(super) fn merges(writer: &mut TokenizerWriter<'_>, pairs: Vec<(String, String)>) -> Vec<Vec<u8>> {
    const SPACE: &str = "\u{120}";
    let mut with_spaces = 0;
    let merges = pairs
        .into_iter()
        .map(|(mut left, mut right)| {
            if left.contains(' ') || right.contains(' ') {
                with_spaces += 1;
                left = left.replace(' ', SPACE);
                right = right.replace(' ', SPACE);
            }
            left.push(' ');
            left.push_str(&right);
            left.into_bytes()
        })
        .collect();
    if with_spaces > 0 {
        writer.note(format!("{with_spaces} merges contain spaces, which are written as `{SPACE}`"));
    }
    merges
}

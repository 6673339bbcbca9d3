//! Byte-level BPE: `tokenizer.ggml.model` = `gpt2`.
//!
//! Source: `_set_vocab_gpt2` and `get_vocab_base` in `conversion/base.py`.

use gguf::Array;
use tokenizers::{Decoder as _, DecoderWrapper};

use super::added::{AddedVocab, Ids};
use super::error::VocabError;
use super::hf::{HfTokenizer, malformed, read_merges_txt};
use super::keys::{self, Keys, TokenTable, TokenType};
use super::{VocabContext, check_rows, looks_special, pre, special};
use crate::Input;

/// Puts the keys of a byte-level BPE.
pub(super) fn put(
    input: &Input<'_>,
    mut hf: HfTokenizer,
    ctx: &VocabContext,
    keys: &mut Keys,
    notes: &mut Vec<String>,
) -> Result<(), VocabError> {
    if let Some(kind) = hf.model.kind.as_deref()
        && kind != "BPE"
    {
        return Err(VocabError::NotSupported {
            what: format!("`{}`: a tokenizer of kind `{kind}`", hf.file),
        });
    }
    if hf.model.merges.0.is_empty()
        && let Some(bytes) = input.file("merges.txt")
    {
        hf.model.merges.0 = read_merges_txt(bytes)?;
    }
    let ids = ids_of(&hf)?;
    check_merges(&hf, &ids)?;
    let mut added = AddedVocab::read(input, &hf, &ids)?;
    notes.append(&mut added.notes);
    let mut table = tokens(&hf, &mut added, ctx, notes)?;
    let pre = match &ctx.pre {
        Some(name) => name.clone(),
        None => pre::recognize(input, &hf, &added, &ids, notes)?,
    };
    keys.put(keys::MODEL, "gpt2");
    keys.put(keys::PRE, pre);
    notes.extend(table.pad_to(ctx.embedding_rows, None));
    check_rows(table.len(), ctx)?;
    let n_tokens = table.len();
    table.put(keys);
    let merges = merges(std::mem::take(&mut hf.model.merges.0), notes);
    if merges.is_empty() {
        notes.push(format!("`{}` has no merges: every text falls apart into bytes", hf.file));
    }
    keys.put(keys::MERGES, Array::String(merges));
    let tokenizer_json = Some(&hf).filter(|hf| hf.file == "tokenizer.json");
    special::put(input, tokenizer_json, &special::Options::default(), n_tokens, keys, notes)
}

/// Token to id, checked: no id twice.
pub(super) fn ids_of(hf: &HfTokenizer) -> Result<Ids<'_>, VocabError> {
    let vocab = &hf.model.vocab.0;
    let mut ids = Ids::with_capacity(vocab.len());
    let mut by_id: Vec<(u32, &str)> = Vec::with_capacity(vocab.len());
    for (text, id) in vocab {
        if ids.insert(text, *id).is_some() {
            return Err(malformed(hf.file, &format!("token `{text}` is listed twice")));
        }
        by_id.push((*id, text));
    }
    if !by_id.is_sorted() {
        by_id.sort_unstable();
    }
    for pair in by_id.windows(2) {
        if pair[0].0 == pair[1].0 {
            return Err(VocabError::RepeatedId {
                id: pair[0].0.into(),
                first: pair[0].1.to_owned(),
                second: pair[1].1.to_owned(),
            });
        }
    }
    Ok(ids)
}

/// Every merge joins two tokens into a third.
pub(super) fn check_merges(hf: &HfTokenizer, ids: &Ids<'_>) -> Result<(), VocabError> {
    let prefix = hf.model.continuing_subword_prefix.as_deref().unwrap_or("");
    let mut joined = String::new();
    for (index, (left, right)) in hf.model.merges.0.iter().enumerate() {
        joined.clear();
        joined.push_str(left);
        joined.push_str(right.strip_prefix(prefix).unwrap_or(right));
        for token in [left, right, &joined] {
            if !ids.contains_key(token.as_str()) {
                return Err(VocabError::MergeOfUnknown {
                    file: if hf.file == "vocab.json" { "merges.txt" } else { hf.file },
                    index,
                    left: left.clone(),
                    right: right.clone(),
                    token: token.clone(),
                });
            }
        }
    }
    Ok(())
}

/// The tokens by id, free ids below the config's `vocab_size` as `[PAD{id}]`.
fn tokens(
    hf: &HfTokenizer,
    added: &mut AddedVocab,
    ctx: &VocabContext,
    notes: &mut Vec<String>,
) -> Result<TokenTable, VocabError> {
    let n_known = hf.model.vocab.0.len()
        + added.by_id.keys().filter(|id| **id as usize >= hf.model.vocab.0.len()).count();
    // The default of the reference: as many as there are tokens, whatever their ids.
    let vocab_size = ctx.vocab_size.unwrap_or_else(|| {
        let last_named = added.only_named.len() as u64;
        (n_known as u64).max(last_named)
    });
    check_rows(usize::try_from(vocab_size).unwrap_or(usize::MAX), ctx)?;
    for id in added.only_named.iter().copied().filter(|id| u64::from(*id) >= vocab_size).collect::<Vec<_>>() {
        if let Some(token) = added.by_id.remove(&id) {
            notes.push(format!(
                "special token `{}` is in no vocabulary file and has no room: left out",
                token.content
            ));
        }
    }
    let mut slots: Vec<Option<&str>> = vec![None; slots_len(vocab_size, hf.file)?];
    let listed = hf.model.vocab.0.iter().map(|(text, id)| (*id, text.as_str()));
    for (id, text) in listed.chain(added.by_id.iter().map(|(id, token)| (*id, token.content.as_str()))) {
        match slots.get_mut(id as usize) {
            Some(Some(have)) if *have != text => {
                return Err(VocabError::RepeatedId {
                    id: id.into(),
                    first: (*have).to_owned(),
                    second: text.to_owned(),
                });
            }
            Some(slot) => *slot = Some(text),
            None => {
                return Err(VocabError::VocabTooLarge { token: text.to_owned(), id: id.into(), vocab_size });
            }
        }
    }
    let decoder: Option<DecoderWrapper> = match &hf.decoder {
        serde_json::Value::Null => None,
        json => Some(
            serde_json::from_value(json.clone())
                .map_err(|error| malformed(hf.file, &format!("`decoder`: {error}")))?,
        ),
    };
    let last = slots.iter().rposition(Option::is_some).unwrap_or(0);
    let holes = slots[..last].iter().filter(|slot| slot.is_none()).count();
    if holes > 0 {
        notes.push(format!(
            "{holes} ids below {last} have no token in `{}`; unused tokens `[PAD...]` stand there",
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
        // llama.cpp looks for added tokens in plain text, so those that are kept in the model's
        // alphabet are brought back to what they stand for.
        let mut plain = token.content.clone();
        if let (false, Some(decoder)) = (token.is_normalized(), &decoder) {
            plain = decoder.decode(vec![plain]).map_err(|error| malformed(hf.file, &error))?;
        }
        if token.special || looks_special(&plain) {
            table.push(plain, TokenType::Control);
        } else {
            table.push(plain.replace('\u{2581}', " "), TokenType::UserDefined);
        }
    }
    Ok(table)
}

/// A vocabulary's size as a length, refused where no file could hold it: the number comes from a
/// config, and memory is taken by it.
pub(super) fn slots_len(vocab_size: u64, file: &str) -> Result<usize, VocabError> {
    const MOST: u64 = 1 << 24;
    match usize::try_from(vocab_size) {
        Ok(len) if vocab_size <= MOST => Ok(len),
        _ => Err(malformed(file, &format!("`vocab_size` {vocab_size} is more than {MOST}"))),
    }
}

/// Merges as the reference writes them: two tokens with a space between; a space inside a token
/// (possible in the newer spelling only) as the character that stands for it in byte-level text.
fn merges(pairs: Vec<(String, String)>, notes: &mut Vec<String>) -> Vec<Vec<u8>> {
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
        notes.push(format!("{with_spaces} merges hold spaces, which are written as `{SPACE}`"));
    }
    merges
}

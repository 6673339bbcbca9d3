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

/// What the architectures that share this loader do differently.
#[derive(Debug, Clone, Copy)]
pub(super) struct Style {
    /// `tokenizer.ggml.model`.
    pub model: &'static str,
    /// `tokenizer.ggml.pre`, where it does not depend on the tokenizer.
    pub pre: Option<&'static str>,
    /// Special ids that are set where no file gives one: name, and the text of an added token.
    pub by_text: &'static [(&'static str, &'static str)],
    /// As above, by id.
    pub by_id: &'static [(&'static str, u32)],
    /// Added tokens that steer the model though their file says otherwise.
    pub control: &'static [&'static str],
    /// Whether added tokens are written as the file has them, and are special only if it says so.
    pub plain_added: bool,
    /// Names of special tokens to look for; empty for the usual ones.
    pub types: &'static [&'static str],
}

impl Style {
    /// `_set_vocab_gpt2`.
    pub(super) const GPT2: Style = Style {
        model: "gpt2",
        pre: None,
        by_text: &[],
        by_id: &[],
        control: &[],
        plain_added: false,
        types: &[],
    };
}

/// What `get_vocab_base` gives: tokens and the name of the pre-tokenizer.
pub(super) struct Base {
    /// Tokens by id.
    pub table: TokenTable,
    /// For `tokenizer.ggml.pre`.
    pub pre: String,
    /// Added tokens.
    pub added: AddedVocab,
}

/// Tokens and the name of the pre-tokenizer of a tokenizer that lists its ids.
pub(super) fn base(
    input: &Input<'_>,
    hf: &HfTokenizer,
    ctx: &VocabContext,
    style: &Style,
    notes: &mut Vec<String>,
) -> Result<Base, VocabError> {
    let ids = ids_of(hf)?;
    check_merges(hf, &ids)?;
    let mut added = AddedVocab::read(input, hf, &ids)?;
    notes.append(&mut added.notes);
    let table = tokens(hf, &mut added, ctx, style, notes)?;
    let pre = match (&ctx.pre, style.pre) {
        (Some(name), _) => {
            notes.push(pre::chosen(name, hf));
            name.clone()
        }
        (None, Some(name)) => name.to_owned(),
        (None, None) => pre::recognize(input, hf, &added, &ids, notes)?,
    };
    Ok(Base { table, pre, added })
}

/// Puts the keys of a byte-level BPE.
pub(super) fn put(
    input: &Input<'_>,
    mut hf: HfTokenizer,
    ctx: &VocabContext,
    style: &Style,
    keys: &mut Keys,
    notes: &mut Vec<String>,
) -> Result<(), VocabError> {
    hf.needs_kind("BPE")?;
    if hf.model.merges.0.is_empty()
        && let Some(bytes) = input.file("merges.txt")
    {
        hf.model.merges.0 = read_merges_txt(bytes)?;
    }
    let Base { mut table, pre, added } = base(input, &hf, ctx, style, notes)?;
    keys.put(keys::MODEL, style.model);
    keys.put(keys::PRE, pre);
    notes.extend(table.pad_to(ctx.embedding_rows, None));
    check_rows(table.len(), ctx)?;
    let n_tokens = table.len();
    table.put(keys);
    let merges = merges(std::mem::take(&mut hf.model.merges.0), notes);
    if merges.is_empty() {
        notes.push(format!("`{}` has no merges: every text falls apart into bytes", hf.file));
    }
    keys.put(keys::MERGES, Array::String(merges.into()));
    let tokenizer_json = Some(&hf).filter(|hf| hf.file == "tokenizer.json");
    let mut options = special::Options {
        types: style.types.to_vec(),
        defaults: style.by_id.to_vec(),
        ..special::Options::default()
    };
    for &(name, text) in style.by_text {
        match added.by_id.iter().find(|(_, token)| token.content == text) {
            Some((id, _)) => options.defaults.push((name, *id)),
            None => notes.push(format!(
                "`{}` has no added token `{text}`, which this architecture takes for `{name}`",
                hf.file
            )),
        }
    }
    special::put(input, tokenizer_json, &options, n_tokens, keys, notes)
}

/// Token to id, checked: no id twice.
pub(super) fn ids_of(hf: &HfTokenizer) -> Result<Ids<'_>, VocabError> {
    let vocab = &hf.model.vocab.0;
    let mut ids = Ids::with_capacity_and_hasher(vocab.len(), ahash::RandomState::new());
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
    style: &Style,
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
        if style.plain_added {
            let kind = if token.special { TokenType::Control } else { TokenType::UserDefined };
            table.push(plain, kind);
            continue;
        }
        if let (false, Some(decoder)) = (token.is_normalized(), &decoder) {
            plain = decoder.decode(vec![plain]).map_err(|error| malformed(hf.file, &error))?;
        }
        if token.special || looks_special(&plain) || style.control.contains(&plain.as_str()) {
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
pub(super) fn merges(pairs: Vec<(String, String)>, notes: &mut Vec<String>) -> Vec<Vec<u8>> {
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

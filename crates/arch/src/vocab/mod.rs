//! Tokenizers: from the files that a checkpoint carries to the `tokenizer.*` keys.
//!
//! One file for each kind of vocabulary ([`Route`] says which kinds an architecture tries and in
//! what order), one for the special tokens that all kinds share, and a table of the
//! pre-tokenizers that llama.cpp knows.
//!
//! Source: `ModelBase._set_vocab_*` in `conversion/base.py` and `SpecialVocab` in
//! `gguf-py/gguf/vocab.py` of llama.cpp, as vendored in llama-cpp-python 0.3.36.

mod added;
mod bpe;
mod error;
mod hf;
mod keys;
mod llama_hf;
mod pre;
mod special;
mod spm;
mod spm_model;
mod template;

use gguf::Metadata;
use serde_json::Value as Json;

use crate::Input;
pub use error::VocabError;
use hf::HfTokenizer;
use keys::Keys;

/// What an architecture wants of its tokenizer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VocabContext {
    /// Which kinds are tried, in which order.
    pub route: Route,
    /// `vocab_size` of the (text) config: the number of tokens that is written; free ids below
    /// it are filled with `[PAD{id}]`. `None` where the config does not say.
    pub vocab_size: Option<u64>,
    /// Rows of the token embedding: every token must have one, and rows without a token get
    /// `[PAD{id}]`.
    pub embedding_rows: Option<u64>,
    /// A name for `tokenizer.ggml.pre` that a person chose (`--pre NAME`); taken as it is.
    pub pre: Option<String>,
}

/// What the architecture's `set_vocab` does in the reference converter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Route {
    /// `LlamaModel.set_vocab`: tokenizer.model, else a llama tokenizer as tokenizer.json, else
    /// byte-level BPE; with the keys that it puts before (`add_space_prefix`) and after
    /// (Code Llama, Granite) the others.
    Llama,
    /// `_set_vocab_gpt2`: byte-level BPE from tokenizer.json or vocab.json and merges.txt.
    Gpt2,
    /// `_set_vocab_sentencepiece`: tokenizer.model only.
    SentencePiece,
    /// `_set_vocab_llama_hf`: a llama tokenizer as tokenizer.json only.
    LlamaHf,
}

/// The tokenizer part of a model's metadata.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Vocab {
    /// `tokenizer.*` keys in the order of the reference converter.
    pub entries: Metadata,
    /// Things a person should know, each one line.
    pub notes: Vec<String>,
}

/// The tokenizer metadata of a checkpoint.
///
/// # Errors
///
/// When the files that the route needs are absent or contradict themselves or the config.
pub fn metadata(input: &Input<'_>, ctx: &VocabContext) -> Result<Vocab, VocabError> {
    let mut keys = Keys::default();
    let mut notes = Vec::new();
    match ctx.route {
        Route::Llama => put_llama(input, ctx, &mut keys, &mut notes)?,
        Route::SentencePiece => spm::put(input, ctx, &mut keys, &mut notes)?,
        Route::Gpt2 => {
            let hf = HfTokenizer::read(input)?.ok_or(NO_TOKENIZER)?;
            bpe::put(input, hf, ctx, &mut keys, &mut notes)?;
        }
        Route::LlamaHf => {
            let hf = HfTokenizer::read(input)?.ok_or(NO_TOKENIZER)?;
            if !llama_hf::is_one(&hf) {
                return Err(VocabError::NotSupported {
                    what: format!("`{}`: not a llama tokenizer", hf.file),
                });
            }
            llama_hf::put(input, &hf, ctx, &mut keys, &mut notes)?;
        }
    }
    let mut once = std::collections::HashSet::new();
    notes.retain(|note| once.insert(note.clone()));
    Ok(Vocab { entries: keys.0, notes })
}

/// Every name that `tokenizer.ggml.pre` may have for llama.cpp to load the file, in its order.
pub fn pre_names() -> impl Iterator<Item = &'static str> {
    pre::names()
}

const NO_TOKENIZER: VocabError = VocabError::NoTokenizer {
    looked_for: "`tokenizer.model`; `tokenizer.json`; `vocab.json` with `merges.txt`",
};

/// `LlamaModel.set_vocab` in `conversion/llama.py`.
fn put_llama(
    input: &Input<'_>,
    ctx: &VocabContext,
    keys: &mut Keys,
    notes: &mut Vec<String>,
) -> Result<(), VocabError> {
    if input.file("tekken.json").is_some() && input.file("tokenizer.json").is_none() {
        return Err(VocabError::NotSupported { what: "`tekken.json` without `tokenizer.json`".into() });
    }
    let config = hf::tokenizer_config(input)?.unwrap_or_default();
    match config.get("add_prefix_space") {
        None | Some(Json::Null) => {}
        Some(value) => keys.put(keys::ADD_SPACE_PREFIX, special::is_true(value)),
    }
    if input.file("tokenizer.model").is_some() {
        spm::put(input, ctx, keys, notes)?;
        if input.file("tokenizer.json").is_some() {
            notes.push(
                "the vocabulary comes from `tokenizer.model`; `tokenizer.json` gives special tokens only"
                    .into(),
            );
        }
    } else {
        let hf = HfTokenizer::read(input)?.ok_or(NO_TOKENIZER)?;
        if llama_hf::is_one(&hf) {
            llama_hf::put(input, &hf, ctx, keys, notes)?;
        } else {
            bpe::put(input, hf, ctx, keys, notes)?;
        }
    }
    match ctx.vocab_size {
        // Code Llama, told by its size.
        Some(32016) => {
            let options = special::Options {
                types: vec!["prefix", "suffix", "middle", "eot"],
                n_vocab: None,
                defaults: vec![("prefix", 32007), ("suffix", 32008), ("middle", 32009), ("eot", 32010)],
            };
            let hf = HfTokenizer::read_without_model(input)?;
            special::put(input, hf.as_ref(), &options, 32016, keys, notes)?;
        }
        // Small Granite models, told by their size; SmolLM has it too.
        Some(49152) => keys.put(keys::ADD_BOS, false),
        _ => {}
    }
    Ok(())
}

/// Whether a token is one that steers the model, although its file does not mark it so.
///
/// Source: `does_token_look_special` in `conversion/base.py`.
fn looks_special(text: &str) -> bool {
    let between = |start: &str, end: &str| text.starts_with(start) && text.ends_with(end);
    matches!(text, "<pad>" | "<mask>" | "<2mass>" | "[@BOS@]")
        || between("<|", "|>")
        || between("<\u{ff5c}", "\u{ff5c}>")
        || between("<unused", ">")
}

/// Every token needs a row of the embedding.
fn check_rows(n_tokens: usize, ctx: &VocabContext) -> Result<(), VocabError> {
    match ctx.embedding_rows {
        Some(rows) if n_tokens as u64 > rows => {
            Err(VocabError::EmbeddingTooSmall { tokens: n_tokens as u64, rows })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;

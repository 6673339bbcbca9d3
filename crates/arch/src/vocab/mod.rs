//! Tokenizers: from the files that a checkpoint carries to the `tokenizer.*` keys.
//!
//! One file for each kind of vocabulary ([`Route`] says which kinds an architecture tries and in
//! what order), one for the special tokens that all kinds share, and a table of the
//! pre-tokenizers that llama.cpp knows.
//!
//! Source: `ModelBase._set_vocab_*` in `conversion/base.py` and `SpecialVocab` in
//! `gguf-py/gguf/vocab.py` of llama.cpp, as vendored in llama-cpp-python 0.3.36.

mod added;
mod agree;
pub(crate) mod base64;
mod bpe;
mod error;
mod hf;
mod keys;
mod llama_hf;
mod mistral;
mod plamo;
mod pre;
mod put;
mod ranks;
mod route;
pub(crate) mod rwkv;
mod special;
mod spm;
mod spm_model;
mod template;
mod tiktoken;
mod unigram;
mod wordpiece;

use gguf::Metadata;

use crate::Input;
pub use error::VocabError;
use keys::Keys;
pub use route::Route;

/// What an architecture wants of its tokenizer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
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
    /// `type_vocab_size` of the config: kinds of sentences that a BERT tells apart; 1 if the
    /// config does not say.
    pub type_vocab_size: Option<u64>,
    /// Whether the tokenizer's own file goes into the metadata as well, as it is
    /// (`tokenizer.huggingface.json`, `tokenizer.rwkv.world`).
    pub embed_json: bool,
    /// Whether a llama tokenizer that is there as tokenizer.json only gets scores made of its merges,
    /// by which llama.cpp cuts text as the model does. The reference gives every token the same.
    pub scores_from_merges: bool,
}

impl VocabContext {
    fn token_types(&self) -> u32 {
        self.type_vocab_size.and_then(|n| u32::try_from(n).ok()).unwrap_or(1)
    }
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
    put::put(input, ctx, &mut keys, &mut notes)?;
    if ctx.embed_json {
        embed(input, ctx.route, &mut keys, &mut notes)?;
    }
    let mut once = std::collections::HashSet::new();
    notes.retain(|note| once.insert(note.clone()));
    Ok(Vocab { entries: keys.0, notes })
}

/// Puts the tokenizer's own file, byte for byte, behind all other keys.
///
/// Source: the GGUF specification, `tokenizer.huggingface.json` and `tokenizer.rwkv.world`; the
/// reference writes neither.
fn embed(
    input: &Input<'_>,
    route: Route,
    keys: &mut Keys,
    notes: &mut Vec<String>,
) -> Result<(), VocabError> {
    let (file, key) = match route {
        Route::RwkvWorld => (rwkv::FILE, keys::RWKV_WORLD),
        _ => ("tokenizer.json", keys::HF_JSON),
    };
    match input.file(file) {
        Some(bytes) => {
            let text = std::str::from_utf8(bytes).map_err(|error| hf::malformed(file, &error))?;
            keys.put(key, text);
        }
        None => notes.push(format!("no `{file}` to embed as `{key}`")),
    }
    Ok(())
}

/// Every name that `tokenizer.ggml.pre` may have for llama.cpp to load the file, in its order.
pub fn pre_names() -> impl Iterator<Item = &'static str> {
    pre::names()
}

const NO_TOKENIZER: VocabError = VocabError::NoTokenizer {
    looked_for: "`tokenizer.model`; `tokenizer.json`; `vocab.json` with `merges.txt`",
};

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

//! Tokenizers: from the files that a checkpoint carries to the `tokenizer.*` keys.
//!
//! One file for each kind of vocabulary ([`Route`] says which kinds an architecture tries and in
//! what order), one for the special tokens that all kinds share, and a table of the
//! pre-tokenizers that llama.cpp knows.
//!
//! Source: `ModelBase._set_vocab_*` in `conversion/base.py` and `SpecialVocab` in
//! `gguf-py/gguf/vocab.py` of llama.cpp, as vendored in llama-cpp-python 0.3.36.

mod error;

use gguf::Metadata;

use crate::Input;
pub use error::VocabError;

/// What an architecture wants of its tokenizer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VocabContext {
    /// Which kinds are tried, in which order.
    pub route: Route,
    /// `vocab_size` of the (text) config: the number of tokens that is written; free ids below
    /// it are filled with `[PAD{id}]`. `None` where the config does not say.
    pub vocab_size: Option<u64>,
    /// Rows of the token embedding, to check that every token has one.
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
    let _ = (input, ctx);
    Err(VocabError::NotSupported { what: "tokenizers (being built)".into() })
}

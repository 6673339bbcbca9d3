//! Tokenizers: from the files that a checkpoint carries to the `tokenizer.*` keys.
//!
//! One file for each kind of vocabulary ([`Route`] says which kinds an architecture tries and in
//! what order), one for the special tokens that all kinds share, and a table of the
//! pre-tokenizers that llama.cpp knows.
//!
//! Source: `ModelBase._set_vocab_*` in `conversion/base.py` and `SpecialVocab` in
//! `gguf-py/gguf/vocab.py` of llama.cpp, as vendored in llama-cpp-python 0.3.36.

mod added;
pub(crate) mod base64;
mod bpe;
mod consistency;
mod context;
mod error;
mod flags;
mod hf;
mod kinds;
mod llama_hf;
mod mistral;
pub(crate) mod plamo;
mod post_processor;
pub(crate) mod pre;
pub(crate) mod ranks;
mod route;
pub(crate) mod rwkv;
mod special;
mod spm;
mod spm_model;
mod template;
pub(crate) mod tiktoken;
mod token_list;
mod token_table;
pub(crate) mod token_type;
mod unigram;
mod wordpiece;
mod writer;

use gguf_container::Metadata;
use serde_json::Value as Json;

use crate::TokenizerFiles;
pub use bpe::BpeStyle;
pub use context::VocabContext;
pub use error::VocabError;
pub use hf::HfTokenizer;
pub use route::Route;
pub use special::SpecialOptions;
pub use spm::{SpecialsAfterPieces, SpmStyle};
use writer::OwnFile;
pub use writer::TokenizerWriter;

/// The tokenizer part of a model's metadata.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Vocab {
    /// `tokenizer.*` keys in the order of the reference converter.
    pub entries: Metadata,
    /// The name of the pre-tokenizer by the tokenizer's own expressions, if the reference's hash selects another one that splits
    /// text differently.
    pub other_pre: Option<String>,
    /// Reasons for llama.cpp to refuse the file, one per line.
    pub warnings: Vec<String>,
    /// Remarks for the user, one per line.
    pub notes: Vec<String>,
    /// Confirmed facts, one per line.
    pub details: Vec<String>,
}

/// The tokenizer metadata of a checkpoint, read by a route.
///
/// # Errors
///
/// When the files that the route needs are absent or contradict themselves or the config.
pub fn metadata(input: &TokenizerFiles<'_>, route: Route, ctx: &VocabContext) -> Result<Vocab, VocabError> {
    // The route writes all keys of the reference; later keys have no counterpart there.
    let mut writer = TokenizerWriter::new(input, ctx);
    (route.write)(&mut writer)?;
    pre::note_choice(&mut writer);
    flags::note(&mut writer);
    if ctx.embed_json {
        embed(&mut writer)?;
    }
    // Routes that read one file twice find the same twice.
    let mut seen = std::collections::HashSet::new();
    for lines in [&mut writer.warnings, &mut writer.notes, &mut writer.details] {
        lines.retain(|line| seen.insert(line.clone()));
    }
    let TokenizerWriter { entries, other_pre, warnings, notes, details, .. } = writer;
    Ok(Vocab { entries, other_pre, warnings, notes, details })
}

/// Appends the tokenizer's own file, byte for byte, after all other keys.
///
/// Source: the GGUF specification, `tokenizer.huggingface.json` and `tokenizer.rwkv.world`; the reference
/// writes neither.
fn embed(writer: &mut TokenizerWriter<'_>) -> Result<(), VocabError> {
    let OwnFile { name, key } = writer.own_file;
    match writer.file(name) {
        Some(bytes) => {
            let text = std::str::from_utf8(bytes).map_err(|error| hf::malformed(name, &error))?;
            writer.set(key, text);
        }
        None => writer.note(format!("missing `{name}` to embed as `{key}`")),
    }
    Ok(())
}

/// The ids of tokens by their texts, of a tokenizer.json or a vocab.json; `None` if one of them is missing.
pub fn token_ids<const N: usize>(input: &TokenizerFiles<'_>, texts: [&str; N]) -> Option<[u64; N]> {
    let parse = |file: &str| serde_json::from_slice::<Json>(input.file(file)?).ok();
    let (whole, plain) = (parse("tokenizer.json"), parse("vocab.json"));
    let added = whole.as_ref().and_then(|whole| whole.get("added_tokens")).and_then(Json::as_array);
    let model_vocab = whole.as_ref().and_then(|whole| whole.get("model")?.get("vocab"));
    let id = |text: &str| {
        let has_text = |token: &&Json| token.get("content").is_some_and(|content| content == text);
        let added = added.into_iter().flatten().find(has_text).and_then(|token| token.get("id"));
        let id = added.or_else(|| model_vocab.or(plain.as_ref())?.get(text));
        id.and_then(Json::as_u64)
    };
    let ids: Vec<u64> = texts.into_iter().map_while(id).collect();
    ids.try_into().ok()
}

/// Every name that `tokenizer.ggml.pre` may have for llama.cpp to load the file, in its order.
pub fn pre_names() -> impl Iterator<Item = &'static str> {
    crate::pre::names()
}

//! From a checkpoint's tokenizer files to the `tokenizer.*` keys.
//!
//! Each kind of vocabulary has a file ([`Route`] defines which kinds an architecture tries, in order).
//! Special tokens, which all kinds share, and the table of llama.cpp's pre-tokenizers have their own files.
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
mod library;
mod llama_hf;
pub(crate) mod plamo;
mod post_processor;
pub(crate) mod pre;
mod ranks;
mod route;
pub(crate) mod rwkv;
mod special;
mod spm;
mod spm_model;
mod tekken;
mod template;
mod tiktoken;
mod token_bytes;
mod token_list;
mod token_table;
mod unigram;
mod vocab_ids;
mod wordpiece;
mod writer;

use serde_json::Value as Json;

use crate::TokenizerFiles;
use crate::tokenizer::Tokenizer;
pub use bpe::BpeStyle;
pub use context::VocabContext;
pub use error::VocabError;
pub use hf::HfTokenizer;
pub use library::library;
pub use plamo::JsonLines;
pub use route::Route;
pub use special::SpecialOptions;
pub use spm::{SpecialsAfterPieces, SpmStyle};
pub use token_bytes::own_tokens;
pub(crate) use unigram::Normalization;
use writer::OwnFile;
pub use writer::{TokenizerWriter, Vocab};

impl Tokenizer {
    /// Reads the tokenizer of a checkpoint by a route.
    ///
    /// # Errors
    ///
    /// If files that the route needs are missing or inconsistent with each other or the config.
    pub fn from_huggingface(
        input: &TokenizerFiles<'_>,
        route: Route,
        ctx: &VocabContext,
    ) -> Result<Vocab, VocabError> {
        // The route writes all keys of the reference; later keys have no counterpart there.
        let mut writer = TokenizerWriter::new(input, ctx);
        (route.write)(&mut writer)?;
        writer.write_space_prefix();
        pre::note_choice(&mut writer);
        // A file that the route does not need may be unreadable.
        let hf = HfTokenizer::read_without_model(input).ok().flatten();
        let listed = consistency::listed(input, hf.as_ref());
        flags::note(&mut writer, &listed);
        consistency::check_written(&mut writer, &listed);
        consistency::check_texts(&mut writer, hf.as_ref(), &listed);
        if ctx.embed_json {
            embed(&mut writer)?;
        }
        // Routes that read a file twice produce notes twice.
        let mut vocab = writer.vocab;
        let mut seen = std::collections::HashSet::new();
        for lines in [&mut vocab.warnings, &mut vocab.notes, &mut vocab.details] {
            lines.retain(|line| seen.insert(line.clone()));
        }
        Ok(vocab)
    }
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

/// Number of tokens of the base vocabulary, without added tokens, in tokenizer.json or vocab.json; `None` if it is unknown.
///
/// Source: `vocab_size` of transformers' tokenizers.
pub fn n_own_tokens(input: &TokenizerFiles<'_>) -> Option<u64> {
    let parse = |file: &str| serde_json::from_slice::<Json>(input.file(file)?).ok();
    let vocab = match parse("tokenizer.json") {
        Some(mut whole) => whole.get_mut("model")?.get_mut("vocab")?.take(),
        None => parse("vocab.json")?,
    };
    let n_tokens = vocab.as_object().map(serde_json::Map::len).or_else(|| vocab.as_array().map(Vec::len));
    n_tokens.map(|n_tokens| n_tokens as u64)
}

/// Ids of tokens by text, from a tokenizer.json or a vocab.json; `None` if a token is missing.
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

//! Tokenizer of an architecture's checkpoints: the kinds that its class of the reference tries, in order.

use std::fmt;

use gguf_container::Metadata;

use super::bpe::BpeStyle;
use super::error::VocabError;
use super::spm::SpmStyle;
use super::writer::TokenizerWriter;
use crate::keys;

/// The architecture's `set_vocab` in the reference converter, and how its tokenizers are exported.
///
/// If the reference cannot read the files but another kind fits unambiguously (a llama tokenizer as
/// tokenizer.json only, a tiktoken file named like a SentencePiece model), it is read as that kind, with a
/// note.
///
/// ```
/// use gguf_tokenizer::huggingface::{BpeStyle, Route};
///
/// const OWN: Route = Route::new("own", |writer| writer.gpt2(&BpeStyle::GPT2));
/// assert_ne!(OWN, Route::GPT2);
/// ```
#[derive(Clone, Copy)]
pub struct Route {
    /// Name, by which routes are compared and goldens find them.
    pub name: &'static str,
    /// Writes the keys.
    pub write: fn(&mut TokenizerWriter<'_>) -> Result<(), VocabError>,
    /// True if a file with this value of `tokenizer.ggml.model` and this metadata can belong to the
    /// architecture.
    pub fits: fn(&str, &Metadata) -> bool,
    /// Class for tokenizer_config.json by the value of `tokenizer.ggml.model`, if the architecture's own
    /// class is required by name.
    pub class: fn(&str) -> Option<&'static str>,
    /// Tiktoken file name for exports of byte-level BPE.
    pub rank_file: Option<&'static str>,
    /// True if an export lists the end of a turn before other ends in generation_config.json.
    pub turn_end_first: bool,
    /// True if the number of tokens replaces a missing `vocab_size` of the config.
    pub counts_tokens: bool,
}

impl Route {
    /// A route with the usual export.
    pub const fn new(
        name: &'static str,
        write: fn(&mut TokenizerWriter<'_>) -> Result<(), VocabError>,
    ) -> Route {
        Route {
            name,
            write,
            fits: |_, _| true,
            class: |_| None,
            rank_file: None,
            turn_end_first: false,
            counts_tokens: false,
        }
    }

    /// `_set_vocab_gpt2`: byte-level BPE from tokenizer.json or vocab.json and merges.txt; else a tiktoken file.
    pub const GPT2: Route = Route::new("gpt2", |writer| writer.gpt2(&BpeStyle::GPT2));

    /// `_set_vocab_sentencepiece`: tokenizer.model.
    pub const SENTENCE_PIECE: Route = Route::new("sentencepiece", |writer| writer.spm(SpmStyle::Plain));

    /// tokenizer.model, else [`Route::GPT2`]. The reference tries the model first and continues if the file is missing.
    pub const SENTENCE_PIECE_OR_GPT2: Route =
        Route::new("sentencepiece_or_gpt2", |writer| writer.spm_or_gpt2());

    /// A model without text.
    pub const NONE: Route = Route::new("none", |writer| {
        writer.set(keys::MODEL, "none");
        Ok(())
    });
}

impl Default for Route {
    fn default() -> Route {
        Route::GPT2
    }
}

impl PartialEq for Route {
    fn eq(&self, other: &Route) -> bool {
        self.name == other.name
    }
}

impl Eq for Route {}

impl fmt::Debug for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

//! Texts of special tokens, which templates read as variables.

use gguf_container::{Metadata, Value};
use gguf_tokenizer::{Encoder, Reading, Tokenizer, keys};

use crate::Model;

/// Texts of the special tokens of a model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SpecialTokens {
    /// The token that begins a text, or an empty string.
    pub bos: String,
    /// The token that ends a text, or an empty string.
    pub eos: String,
    /// Further tokens by their variable, for example `pad_token`.
    pub other_tokens: Vec<(&'static str, String)>,
}

impl SpecialTokens {
    /// Only the tokens that begin and end a text.
    pub fn new(bos: &str, eos: &str) -> SpecialTokens {
        SpecialTokens { bos: bos.to_owned(), eos: eos.to_owned(), other_tokens: Vec::new() }
    }

    /// The special tokens named in the metadata of a file.
    pub fn of(metadata: &Metadata) -> SpecialTokens {
        let tokens = metadata.texts(keys::TOKENS).ok().flatten();
        let token = |key: &str| {
            let id = metadata.get(key).and_then(Value::as_u64).and_then(|id| usize::try_from(id).ok())?;
            Some(String::from_utf8_lossy(tokens.as_ref()?.get(id)?).into_owned())
        };
        let others =
            keys::SPECIAL_TOKENS.into_iter().filter(|(_, key)| ![keys::BOS_ID, keys::EOS_ID].contains(key));
        SpecialTokens {
            bos: token(keys::BOS_ID).unwrap_or_default(),
            eos: token(keys::EOS_ID).unwrap_or_default(),
            other_tokens: others.filter_map(|(name, key)| Some((name, token(key)?))).collect(),
        }
    }

    /// The special tokens of a model, including those that its tokenizer has without a key.
    pub fn of_model(model: &Model) -> SpecialTokens {
        SpecialTokens::with_tokenizer(model.file().metadata(), model.tokenizer())
    }

    /// The special tokens of a file, including those that its tokenizer has without a key.
    pub fn with_tokenizer(metadata: &Metadata, tokenizer: &Encoder) -> SpecialTokens {
        let text = |id: Option<u32>| {
            let text = id.and_then(|id| tokenizer.token_text(id)).unwrap_or_default();
            String::from_utf8_lossy(text).into_owned()
        };
        SpecialTokens {
            bos: text(tokenizer.bos()),
            eos: text(tokenizer.eos()),
            ..SpecialTokens::of(metadata)
        }
    }

    /// Like [`SpecialTokens::with_tokenizer`], with the tokenizer of the file if it is valid.
    pub fn of_file(metadata: &Metadata) -> SpecialTokens {
        match Tokenizer::from_gguf(metadata).encoder(Reading::LlamaCpp) {
            Ok(encoder) => SpecialTokens::with_tokenizer(metadata, &encoder),
            Err(_) => SpecialTokens::of(metadata),
        }
    }

    /// Text of BOS if the tokenizer of the file adds the token to a prompt, else an empty string.
    pub fn added_bos(metadata: &Metadata) -> String {
        match Tokenizer::from_gguf(metadata).encoder(Reading::LlamaCpp) {
            Ok(encoder) if encoder.adds_bos() => SpecialTokens::with_tokenizer(metadata, &encoder).bos,
            _ => String::new(),
        }
    }
}

//! A tokenizer as plain data, the form between checkpoints, GGUF files and encoders.

use std::borrow::Cow;

use gguf_container::{Array, KeyError, Metadata, Strings};

use crate::{keys, pre};

/// A tokenizer: its model, tokens with scores and types, merges, pre-tokenizer, normalizer, special tokens and chat
/// templates.
///
/// It consists of keys like in GGUF files, because their order and types are part of a file.
/// [`Tokenizer::from_huggingface`] creates the keys from a checkpoint's files, [`Tokenizer::to_huggingface`]
/// creates such files from the keys, and [`Tokenizer::encoder`] only needs the keys.
///
/// ```
/// use gguf_container::{Array, Metadata, Value};
/// use gguf_tokenizer::{Reading, Tokenizer};
///
/// let texts = |texts: &[&str]| Value::Array(Array::String(texts.iter().collect()));
/// let mut metadata = Metadata::new();
/// metadata.set("general.architecture", "gpt2");
/// metadata.set("tokenizer.ggml.model", "gpt2");
/// metadata.set("tokenizer.ggml.pre", "gpt-2");
/// metadata.set("tokenizer.ggml.tokens", texts(&["a", "b", "ab"]));
/// metadata.set("tokenizer.ggml.merges", texts(&["a b"]));
///
/// let tokenizer = Tokenizer::from_gguf(&metadata);
/// assert_eq!(tokenizer.to_gguf().len(), 4);
/// let encoder = tokenizer.encoder(Reading::LlamaCpp)?;
/// assert_eq!(encoder.encode("abb", false, false)?, [2, 1]);
/// assert_eq!(encoder.decode(&[2, 1])?, b"abb");
/// # Ok::<(), gguf_tokenizer::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Tokenizer {
    /// `tokenizer.*` keys in file order.
    pub(crate) keys: Metadata,
    /// `general.architecture` and `general.name`, from which llama.cpp derives token flags that have no key.
    pub(crate) names: Metadata,
}

impl Tokenizer {
    /// The tokenizer of a file. Lists of texts are shared with its metadata. [`Tokenizer::encoder`] and
    /// [`Tokenizer::to_huggingface`] check the keys that they need.
    pub fn from_gguf(metadata: &Metadata) -> Tokenizer {
        let part =
            |is_part: fn(&str) -> bool| metadata.iter().filter(|(key, _)| is_part(key)).cloned().collect();
        Tokenizer {
            keys: part(|key| key.starts_with("tokenizer.")),
            names: part(|key| ["general.architecture", "general.name"].contains(&key)),
        }
    }

    /// Keys for a file, in the order of the reference converter.
    pub fn to_gguf(&self) -> Metadata {
        self.keys.clone()
    }

    pub(crate) fn model(&self) -> Result<&str, KeyError> {
        self.keys.text(keys::MODEL)?.ok_or_else(|| KeyError::missing(keys::MODEL))
    }

    /// Name of the pre-tokenizer; some kinds of vocabulary have only one.
    pub(crate) fn pre_name(&self) -> Result<&str, KeyError> {
        match self.model()? {
            own @ "gemma4" => Ok(own),
            _ => Ok(self.keys.text(keys::PRE)?.filter(|pre| !pre.is_empty()).unwrap_or("default")),
        }
    }

    /// For BOS and EOS: true if llama.cpp adds it without a flag.
    ///
    /// Source: `llama_vocab::impl::load` in `src/llama-vocab.cpp`.
    pub(crate) fn added_by_default(&self) -> [bool; 2] {
        let is_added = |name| pre::by_name(name).is_some_and(|pre| pre.add_bos);
        match self.model().unwrap_or_default() {
            "llama" | "bert" => [true, false],
            "t5" => [false, true],
            "gpt2" | "whitespace" => [self.pre_name().is_ok_and(is_added), false],
            _ => [false, false],
        }
    }

    pub(crate) fn tokens(&self) -> Result<Cow<'_, Strings>, KeyError> {
        self.keys.texts(keys::TOKENS)?.ok_or_else(|| KeyError::missing(keys::TOKENS))
    }

    pub(crate) fn scores(&self) -> Result<Option<Cow<'_, [f32]>>, KeyError> {
        self.keys.read(keys::SCORES, "a list of f32 or i32", |value| match value.as_array()? {
            Array::F32(scores) => Some(scores.into()),
            Array::I32(scores) => Some(scores.iter().map(|score| *score as f32).collect()),
            _ => None,
        })
    }

    /// Numbers of the types by id.
    pub(crate) fn types(&self) -> Result<Option<&[i32]>, KeyError> {
        self.keys.read(keys::TOKEN_TYPE, "a list of i32", |value| match value.as_array()? {
            Array::I32(types) => Some(types.as_slice()),
            _ => None,
        })
    }

    /// SentencePiece's compiled table of replacements; empty if missing.
    pub(crate) fn charsmap(&self) -> Result<Vec<u8>, KeyError> {
        let bytes = self.keys.read(keys::PRECOMPILED_CHARSMAP, "a list of bytes", |value| {
            match value.as_array()? {
                Array::U8(bytes) => Some(bytes.clone()),
                Array::I8(bytes) => Some(bytes.iter().map(|byte| *byte as u8).collect()),
                _ => None,
            }
        })?;
        Ok(bytes.unwrap_or_default())
    }

    /// Whitespace that special tokens absorb in llama.cpp.
    ///
    /// Source: `llama_vocab::impl::load` in `src/llama-vocab.cpp`, "set attributes by model/tokenizer/architecture name".
    pub(crate) fn strips(&self) -> Result<Strips, KeyError> {
        let name = self.names.text("general.name")?.unwrap_or_default().to_ascii_lowercase();
        let architecture = self.names.text("general.architecture")?.unwrap_or_default();
        let pre = self.pre_name()?;
        let has = |text: &str, parts: [&str; 2]| parts.iter().any(|part| text.contains(part));
        Ok(
            if pre::by_name(pre).is_some_and(|row| row.mask_strips.contains(&pre))
                || has(architecture, ["nomic-bert-moe", "jina-bert-v3"])
            {
                Strips::LeftOf("<mask>")
            } else if has(&name, ["phi-3", "phi3"]) {
                Strips::RightExcept(["<unk>", "<s>", "<|endoftext|>"])
            } else if name.contains("modern-bert") {
                Strips::LeftOf("[MASK]")
            } else {
                Strips::None
            },
        )
    }
}

/// Ids of BOS and EOS that llama.cpp uses without keys.
pub(crate) fn default_ids(model: &str) -> [Option<u32>; 2] {
    match model {
        "llama" | "plamo2" | "plamo3" => [Some(1), Some(2)],
        "bert" => [Some(101), None],
        "gpt2" | "whitespace" => [Some(11), Some(11)],
        "t5" => [None, Some(1)],
        _ => [None, None],
    }
}

/// Special tokens that absorb the whitespace next to them.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) enum Strips {
    #[default]
    None,
    /// This token, on its left.
    LeftOf(&'static str),
    /// All others, on their right.
    RightExcept([&'static str; 3]),
}

/// Position of the space between the two parts of a merge. The first part may begin with a space.
pub(crate) fn space_of_merge(merge: &[u8]) -> Option<usize> {
    merge.iter().skip(1).position(|byte| *byte == b' ').map(|at| at + 1)
}

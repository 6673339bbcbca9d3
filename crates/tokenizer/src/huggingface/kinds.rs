//! Kinds of tokenizers that routes combine: files to read and additional keys.

use gguf_container::{Array, Value};
use serde_json::{Map, Value as Json};

use super::bpe::{self, BpeStyle};
use super::error::VocabError;
use super::hf::{self, HfTokenizer};
use super::ranks::Ranks;
use super::special::{self, SpecialOptions};
use super::spm::{self, SpmStyle};
use super::spm_model::SpmModel;
use super::writer::TokenizerWriter;
use super::{llama_hf, template};
use crate::json::is_truthy;
use crate::keys;

const NO_TOKENIZER: VocabError = VocabError::NoTokenizer {
    expected: "`tokenizer.model`; `tokenizer.json`; `vocab.json` with `merges.txt`",
};

/// Kinds of tokenizers, and steps that several routes share. All write keys in the reference's order.
///
/// # Errors
///
/// [`VocabError`]: files that are missing, or inconsistent with each other or the config.
impl TokenizerWriter<'_> {
    /// True if there is a tokenizer.model that is not a renamed tiktoken file.
    pub fn has_spm(&self) -> bool {
        self.file("tokenizer.model").is_some_and(|bytes| !Ranks::is_one(bytes))
    }

    /// Vocabulary listed by a checkpoint: tokenizer.json, else vocab.json with merges.txt, else vocab.txt.
    pub fn read_json(&self) -> Result<Option<HfTokenizer>, VocabError> {
        HfTokenizer::read(self.input)
    }

    /// Like [`TokenizerWriter::read_json`], if the file is required.
    pub fn tokenizer_json(&self) -> Result<HfTokenizer, VocabError> {
        self.read_json()?.ok_or(NO_TOKENIZER)
    }

    /// tokenizer_config.json, or an empty object without that file.
    pub fn tokenizer_config(&self) -> Result<Map<String, Json>, VocabError> {
        Ok(hf::tokenizer_config(self.input)?.unwrap_or_default())
    }

    /// `tokenizer_class` of tokenizer_config.json without its `Fast`, or an empty string.
    pub fn tokenizer_class(&self) -> String {
        hf::class_of(self.input)
    }

    /// Byte-level BPE that lists its ids; else a tiktoken file.
    pub fn gpt2(&mut self, style: &BpeStyle) -> Result<(), VocabError> {
        self.gpt2_of(self.read_json()?, style)
    }

    /// Like [`TokenizerWriter::gpt2`], for a vocabulary that was read already.
    pub fn gpt2_of(&mut self, hf: Option<HfTokenizer>, style: &BpeStyle) -> Result<(), VocabError> {
        match hf {
            Some(hf) => bpe::write_keys(self, hf, style),
            None if self.has_tiktoken() => self.tiktoken(),
            None => Err(NO_TOKENIZER),
        }
    }

    /// `_set_vocab_llama_hf`: a llama tokenizer as tokenizer.json only.
    pub fn llama_hf(&mut self) -> Result<(), VocabError> {
        let hf = self.tokenizer_json()?;
        if !hf.is_llama() {
            return Err(VocabError::NotSupported {
                subject: format!("`{}`: expected a llama tokenizer", hf.file),
            });
        }
        self.llama_hf_of(&hf)
    }

    /// tokenizer.model, or else the same model as tokenizer.json, with scores derived from merges.
    pub fn spm(&mut self, style: SpmStyle) -> Result<(), VocabError> {
        let has_model = self.file("tokenizer.model").is_some();
        let hf = if has_model { None } else { self.read_json()? };
        self.spm_or_json(hf, style)
    }

    /// tokenizer.model, else [`TokenizerWriter::gpt2`].
    pub fn spm_or_gpt2(&mut self) -> Result<(), VocabError> {
        if self.has_spm() { self.spm(SpmStyle::Plain) } else { self.gpt2(&BpeStyle::GPT2) }
    }

    /// tokenizer.model, or else spiece.model.
    pub fn spm_of_either_name(&mut self) -> Result<(), VocabError> {
        match self.file("tokenizer.model").or_else(|| self.file("spiece.model")) {
            Some(bytes) => spm::write_model(self, bytes, SpmStyle::Plain),
            None => spm::write_keys(self, SpmStyle::Plain),
        }
    }

    /// Like [`TokenizerWriter::spm`], for a vocabulary that was read already.
    pub fn spm_or_json(&mut self, hf: Option<HfTokenizer>, style: SpmStyle) -> Result<(), VocabError> {
        match hf {
            Some(hf) if hf.is_llama() => llama_hf::write_ranked(self, &hf, style),
            Some(hf) if self.file("tokenizer.model").is_none() => Err(VocabError::NotSupported {
                subject: format!("`{}` without SentencePiece, which this architecture requires", hf.file),
            }),
            _ => spm::write_keys(self, style),
        }
    }

    /// Id of a token in the written vocabulary.
    pub fn token_id(&self, token: &str) -> Option<u32> {
        let Value::Array(Array::String(tokens)) = self.vocab.tokenizer.keys.get(keys::TOKENS)? else {
            return None;
        };
        u32::try_from(tokens.iter().position(|other| other == token.as_bytes())?).ok()
    }

    /// WordPiece.
    pub fn wordpiece(&mut self) -> Result<(), VocabError> {
        let hf = self.tokenizer_json()?;
        self.wordpiece_of(&hf)
    }

    /// Special tokens, flags and the chat template. Ids from `n_tokens` on are written with a note.
    pub fn special_tokens(&mut self, options: &SpecialOptions, n_tokens: usize) -> Result<(), VocabError> {
        // Skips a quarter of a million tokens of tokenizer.json: only its special tokens matter here.
        let hf = HfTokenizer::read_without_model(self.input)?;
        special::write_keys(self, hf.as_ref(), options, n_tokens)
    }

    /// `add_prefix_space` of tokenizer_config.json, if present.
    pub fn add_prefix_space(&mut self) -> Result<(), VocabError> {
        let config = self.tokenizer_config()?;
        match config.get("add_prefix_space") {
            None | Some(Json::Null) => {}
            Some(value) => self.set(keys::ADD_SPACE_PREFIX, is_truthy(value)),
        }
        Ok(())
    }

    /// BOS and EOS of tokenizer.model, if no other file states them.
    pub fn write_model_ids(&mut self) -> Result<(), VocabError> {
        let Some(bytes) = self.file("tokenizer.model").filter(|bytes| !Ranks::is_one(bytes)) else {
            return Ok(());
        };
        let model = SpmModel::read(bytes).map_err(|problem| hf::malformed("tokenizer.model", &problem))?;
        for (key, id) in [(keys::BOS_ID, model.bos_id), (keys::EOS_ID, model.eos_id)] {
            // -1 means no token.
            if id != u32::MAX && !self.has(key) {
                self.set(key, id);
            }
        }
        Ok(())
    }

    /// tokenizer.json or tokenizer.model (the latter first if `model_first`), with the vocabulary rounded up
    /// to a multiple: `multiple`, else that of the config, else `default`. It is limited to the rows of the
    /// embedding: with more tokens than rows, llama.cpp does not load the reference's file.
    pub fn rounded(
        &mut self,
        multiple: Option<u64>,
        default: u64,
        model_first: bool,
    ) -> Result<(), VocabError> {
        let config = self.input.config;
        let stated = || {
            let key = "pad_vocab_size_multiple";
            config.get(key).or_else(|| config.get("text_config")?.get(key)).and_then(Json::as_u64)
        };
        // Kernels prefer numbers of rows that are multiples of 8 or 16; the extra rows have no token.
        let multiple = multiple.or_else(stated).filter(|n| *n > 0).unwrap_or(default);
        if let Some(size) = self.ctx.vocab_size {
            let rounded = size.div_ceil(multiple).saturating_mul(multiple);
            let room = self.ctx.embedding_rows.map_or(rounded, |rows| rounded.min(rows.max(size)));
            if room < rounded {
                self.note(format!(
                    "the vocabulary is not padded from {size} to {rounded} tokens, because the embedding has \
                        {room} rows"
                ));
            }
            self.ctx.vocab_size = Some(room);
        }
        let has_json = self.file("tokenizer.json").is_some();
        if self.has_spm() && (model_first || !has_json) {
            self.spm(SpmStyle::Plain)
        } else if has_json || self.file("vocab.json").is_some() {
            self.gpt2(&BpeStyle::GPT2)
        } else {
            Err(VocabError::NotSupported {
                subject: "missing tokenizer: copy `tokenizer.json` of GPT-NeoX into the folder".into(),
            })
        }
    }

    /// chat_template.jinja, which overrides tokenizer_config.json.
    pub fn own_template(&mut self) -> Result<(), VocabError> {
        if let Some(text) = template::jinja_file(self.input)? {
            self.set(keys::CHAT_TEMPLATE, text);
        }
        Ok(())
    }
}

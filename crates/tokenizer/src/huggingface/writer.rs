//! Input and output of every kind of tokenizer: the checkpoint, requirements, keys so far, and notes.

use gguf_container::{Array, Value};

use super::context::VocabContext;
use super::error::VocabError;
use super::token_list;
use super::token_table::TokenTable;
use crate::tokenizer::Tokenizer;
use crate::{TokenizerFiles, keys};

/// A tokenizer, and messages about its files.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Vocab {
    /// The tokenizer.
    pub tokenizer: Tokenizer,
    /// Name of the pre-tokenizer by the tokenizer's own expressions, if the reference's hash selects another
    /// one that splits text differently.
    pub other_pre: Option<String>,
    /// Reasons for llama.cpp to refuse the file or to tokenize differently from transformers, one per line.
    pub warnings: Vec<String>,
    /// Remarks for the user, one per line.
    pub notes: Vec<String>,
    /// Confirmed facts, one per line.
    pub details: Vec<String>,
}

/// The tokenizer section under construction.
///
/// Keys are collected like by the reference's writer: an existing key keeps its position and gets the new
/// value; empty texts and arrays are left out.
///
/// Source: `GGUFWriter.add_key_value` and its callers in `gguf-py/gguf/gguf_writer.py`.
pub struct TokenizerWriter<'w> {
    /// The checkpoint's config and small files.
    pub input: &'w TokenizerFiles<'w>,
    /// Requirements; routes that count the vocabulary differently change `vocab_size`.
    pub ctx: VocabContext,
    pub(super) own_file: OwnFile,
    /// True if tokenizer.model does not prepend a space.
    pub(super) without_space: bool,
    pub(super) vocab: Vocab,
}

/// A file of the tokenizer, and the key under which it is embedded.
#[derive(Clone, Copy)]
pub(super) struct OwnFile {
    pub name: &'static str,
    pub key: &'static str,
}

impl<'w> TokenizerWriter<'w> {
    pub(super) fn new(input: &'w TokenizerFiles<'w>, ctx: &VocabContext) -> Self {
        let mut vocab = Vocab::default();
        vocab.tokenizer.names.set("general.architecture", ctx.architecture.as_str());
        vocab.tokenizer.names.set("general.name", ctx.model_name.as_str());
        let own_file = OwnFile { name: "tokenizer.json", key: keys::HF_JSON };
        TokenizerWriter { input, ctx: ctx.clone(), own_file, without_space: false, vocab }
    }

    /// The bytes of a small file of the checkpoint.
    pub fn file(&self, name: &str) -> Option<&'w [u8]> {
        self.input.file(name)
    }

    /// Sets a key.
    pub fn set(&mut self, key: &str, value: impl Into<Value>) {
        let value = value.into();
        let is_empty = match &value {
            Value::String(text) => text.is_empty(),
            Value::Array(items) => items.is_empty(),
            _ => false,
        };
        if is_empty {
            return;
        }
        self.vocab.tokenizer.keys.set(key, value);
    }

    /// Sets a key and moves it after all others.
    pub fn set_last(&mut self, key: &str, value: impl Into<Value>) {
        self.vocab.tokenizer.keys.set_last(key, value);
    }

    /// Inserts a new key right after another.
    pub fn set_after(&mut self, before: &str, key: &str, value: impl Into<Value>) {
        let keys = &mut self.vocab.tokenizer.keys;
        let at = keys.iter().position(|(other, _)| other == before).map_or(keys.len(), |at| at + 1);
        keys.set_at(at, key, value);
    }

    /// True if a key exists.
    pub fn has(&self, key: &str) -> bool {
        self.vocab.tokenizer.keys.contains(key)
    }

    /// Notes something that a person should know.
    pub fn note(&mut self, note: impl Into<String>) {
        self.vocab.notes.push(note.into());
    }

    /// Warns of results that differ from transformers.
    pub fn warn(&mut self, warning: impl Into<String>) {
        self.vocab.warnings.push(warning.into());
    }

    /// Notes something that needs no action.
    pub(super) fn detail(&mut self, detail: impl Into<String>) {
        self.vocab.details.push(detail.into());
    }

    /// Sets the kind of vocabulary, its pre-tokenizer (if it has one) and its arrays in the reference's order: tokens,
    /// scores, types. Gives the number of tokens.
    pub(super) fn set_vocab(&mut self, model: &str, pre: &str, table: TokenTable) -> usize {
        self.set(keys::MODEL, model);
        self.set(keys::PRE, pre);
        let (n_tokens, types) = (table.len(), table.type_ids());
        self.set(keys::TOKENS, Array::String(table.texts.into()));
        // A vocabulary without scores has an empty list, and empty lists are not written.
        self.set(keys::SCORES, Array::F32(table.scores));
        self.set(keys::TOKEN_TYPE, Array::I32(types));
        n_tokens
    }

    /// States that no space is put before a text, if the route has not: llama.cpp puts one by default.
    pub(super) fn write_space_prefix(&mut self) {
        if self.without_space && !self.has(keys::ADD_SPACE_PREFIX) {
            self.set(keys::ADD_SPACE_PREFIX, false);
            self.note(format!(
                "`{}` is false: `tokenizer.model` does not add a space before a text, but llama.cpp does by default",
                keys::ADD_SPACE_PREFIX
            ));
        }
    }

    /// Every token needs a row of the embedding.
    pub(super) fn check_rows(&self, n_tokens: usize) -> Result<(), VocabError> {
        match self.ctx.embedding_rows {
            Some(rows) if n_tokens as u64 > rows => {
                let without_row = token_list::from_id(self.input, rows);
                Err(VocabError::EmbeddingTooSmall { without_row, tokens: n_tokens as u64, rows })
            }
            _ => Ok(()),
        }
    }

    /// Adds `[PAD{id}]` until every row of the embedding has a token, with a note: llama.cpp does not
    /// load a file in which the two numbers differ. More tokens than rows are an error.
    pub(super) fn pad_to_rows(
        &mut self,
        table: &mut TokenTable,
        score: Option<f32>,
    ) -> Result<(), VocabError> {
        let n_rows = table.len();
        self.check_rows(n_rows)?;
        let rows = self.ctx.embedding_rows.and_then(|rows| usize::try_from(rows).ok());
        if let Some(rows) = rows.filter(|rows| *rows > n_rows) {
            table.fill(rows, score);
            self.note(format!(
                "the embedding has {rows} rows for {n_rows} tokens: unused tokens `[PAD{n_rows}]` and following were added"
            ));
        }
        Ok(())
    }
}

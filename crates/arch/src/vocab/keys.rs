//! The keys of the tokenizer section, and the list that they are put into.

use gguf::{Array, Metadata, Value};

pub(super) const MODEL: &str = "tokenizer.ggml.model";
pub(super) const PRE: &str = "tokenizer.ggml.pre";
pub(super) const TOKENS: &str = "tokenizer.ggml.tokens";
pub(super) const SCORES: &str = "tokenizer.ggml.scores";
pub(super) const TOKEN_TYPE: &str = "tokenizer.ggml.token_type";
pub(super) const MERGES: &str = "tokenizer.ggml.merges";
pub(super) const ADD_BOS: &str = "tokenizer.ggml.add_bos_token";
pub(super) const ADD_SPACE_PREFIX: &str = "tokenizer.ggml.add_space_prefix";
pub(super) const TOKEN_TYPE_COUNT: &str = "tokenizer.ggml.token_type_count";
pub(super) const REMOVE_EXTRA_WHITESPACES: &str = "tokenizer.ggml.remove_extra_whitespaces";
pub(super) const PRECOMPILED_CHARSMAP: &str = "tokenizer.ggml.precompiled_charsmap";
pub(super) const BOS_ID: &str = "tokenizer.ggml.bos_token_id";
pub(super) const EOS_ID: &str = "tokenizer.ggml.eos_token_id";
pub(super) const UNK_ID: &str = "tokenizer.ggml.unknown_token_id";
pub(super) const SEP_ID: &str = "tokenizer.ggml.seperator_token_id";
pub(super) const PAD_ID: &str = "tokenizer.ggml.padding_token_id";
pub(super) const MASK_ID: &str = "tokenizer.ggml.mask_token_id";
pub(super) const EOT_ID: &str = "tokenizer.ggml.eot_token_id";
pub(super) const EOM_ID: &str = "tokenizer.ggml.eom_token_id";
pub(super) const ADD_EOS: &str = "tokenizer.ggml.add_eos_token";
pub(super) const ADD_SEP: &str = "tokenizer.ggml.add_sep_token";
pub(super) const HF_JSON: &str = "tokenizer.huggingface.json";
pub(super) const RWKV_WORLD: &str = "tokenizer.rwkv.world";
pub(super) const CHAT_TEMPLATE: &str = "tokenizer.chat_template";
pub(super) const CHAT_TEMPLATES: &str = "tokenizer.chat_templates";
pub(super) const LOWERCASE: &str = "tokenizer.ggml.normalizer.lowercase";
pub(super) const STRIP_ACCENTS: &str = "tokenizer.ggml.normalizer.strip_accents";

/// What a token is, as llama.cpp numbers it.
///
/// Source: `TokenType` in `gguf-py/gguf/constants.py`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TokenType {
    /// Ordinary text.
    Normal = 1,
    /// Stands for what the vocabulary cannot spell.
    Unknown = 2,
    /// Steers the model, is not shown.
    Control = 3,
    /// Added text, matched before all others.
    UserDefined = 4,
    /// A place without a token.
    Unused = 5,
    /// One byte.
    Byte = 6,
}

/// Metadata as the reference's writer collects it.
///
/// Source: `GGUFWriter.add_key_value` and its callers: a key that is there keeps its place and
/// takes the new value; empty strings and empty arrays are left out.
#[derive(Debug, Default)]
pub(super) struct Keys(pub Metadata);

impl Keys {
    /// Puts a value.
    pub(super) fn put(&mut self, key: &str, value: impl Into<Value>) {
        let value = value.into();
        let empty = match &value {
            Value::String(text) => text.is_empty(),
            Value::Array(items) => items.is_empty(),
            _ => false,
        };
        if empty {
            return;
        }
        self.0.set(key, value);
    }
}

/// The tokens of a vocabulary with their types, and scores for kinds that have them.
#[derive(Debug, Default)]
pub(super) struct TokenTable {
    /// Texts by id.
    pub texts: Vec<Vec<u8>>,
    /// Types by id.
    pub types: Vec<i32>,
    /// Scores by id; empty for kinds without.
    pub scores: Vec<f32>,
}

impl TokenTable {
    /// Adds a token without a score.
    pub(super) fn push(&mut self, text: impl Into<Vec<u8>>, kind: TokenType) {
        self.texts.push(text.into());
        self.types.push(kind as i32);
    }

    /// Adds a token with a score.
    pub(super) fn push_scored(&mut self, text: impl Into<Vec<u8>>, kind: TokenType, score: f32) {
        self.push(text, kind);
        self.scores.push(score);
    }

    /// Number of tokens.
    pub(super) fn len(&self) -> usize {
        self.texts.len()
    }

    /// Adds `[PAD{id}]` until every row of the embedding has a token; llama.cpp does not load a
    /// file in which the two numbers differ. Gives the note that says so.
    pub(super) fn pad_to(&mut self, rows: Option<u64>, pad_score: Option<f32>) -> Option<String> {
        let have = self.len();
        let rows = usize::try_from(rows?).ok()?;
        if rows <= have {
            return None;
        }
        for id in have..rows {
            self.push(format!("[PAD{id}]"), TokenType::Unused);
            self.scores.extend(pad_score);
        }
        Some(format!(
            "the embedding has {rows} rows for {have} tokens: unused tokens `[PAD{have}]` and following were added"
        ))
    }

    /// Puts the arrays in the reference's order: tokens, scores, types.
    pub(super) fn put(self, keys: &mut Keys) {
        keys.put(TOKENS, Array::String(self.texts.into()));
        keys.put(SCORES, Array::F32(self.scores));
        keys.put(TOKEN_TYPE, Array::I32(self.types));
    }
}

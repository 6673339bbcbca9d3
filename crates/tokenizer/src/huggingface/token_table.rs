//! Tokens of a vocabulary to be written to the metadata.

use crate::token_type::TokenType;

#[derive(Debug, Default)]
pub(super) struct TokenTable {
    pub texts: Vec<Vec<u8>>,
    pub types: Vec<TokenType>,
    /// Scores by id; empty for kinds without.
    pub scores: Vec<f32>,
}

impl TokenTable {
    /// Adds a token without a score.
    pub(super) fn push(&mut self, text: impl Into<Vec<u8>>, kind: TokenType) {
        self.texts.push(text.into());
        self.types.push(kind);
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

    /// Numbers of the types, as stored in files.
    pub(super) fn type_ids(&self) -> Vec<i32> {
        self.types.iter().map(|kind| kind.id()).collect()
    }

    /// Turns user-defined tokens of spaces into ordinary ones of U+2581.
    ///
    /// Source: `ModernBertModel.get_vocab_base` in `conversion/bert.py` of llama.cpp build 11549.
    pub(super) fn escape_spaces(&mut self) {
        for (text, kind) in self.texts.iter_mut().zip(&mut self.types) {
            let is_of_spaces = !text.is_empty() && text.iter().all(|byte| *byte == b' ');
            if *kind == TokenType::UserDefined && is_of_spaces {
                (*text, *kind) = ("\u{2581}".repeat(text.len()).into_bytes(), TokenType::Normal);
            }
        }
    }

    /// Appends `[PAD{id}]` up to `n_tokens`; `score` for kinds that have scores.
    pub(super) fn fill(&mut self, n_tokens: usize, score: Option<f32>) {
        for id in self.len()..n_tokens {
            self.push(format!("[PAD{id}]"), TokenType::Unused);
            self.scores.extend(score);
        }
    }
}

//! The tokens of a vocabulary on their way into the metadata.

use crate::token_type::TokenType;

/// The tokens of a vocabulary with their types, and scores for kinds that have them.
#[derive(Debug, Default)]
pub(super) struct TokenTable {
    /// Texts by id.
    pub texts: Vec<Vec<u8>>,
    /// Types by id.
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

    /// The numbers of the types, as files hold them.
    pub(super) fn type_ids(&self) -> Vec<i32> {
        self.types.iter().map(|kind| kind.id()).collect()
    }

    /// Fills up with `[PAD{id}]` to `n_tokens`; `score` for kinds that have scores.
    pub(super) fn fill(&mut self, n_tokens: usize, score: Option<f32>) {
        for id in self.len()..n_tokens {
            self.push(format!("[PAD{id}]"), TokenType::Unused);
            self.scores.extend(score);
        }
    }
}

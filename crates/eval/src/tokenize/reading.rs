//! Whose tokenizer the keys of a file are read for.

/// What the keys are taken to mean where llama.cpp only comes near the model's own tokenizer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reading {
    /// What llama.cpp does with the keys: the same ids as its `llama_tokenize`.
    #[default]
    LlamaCpp,
    /// What the keys stand for: the expressions as the models that a pre-tokenizer is named after
    /// state them, and the composition of characters that their normalizer does. The same ids as
    /// the model's own tokenizer, if the keys are right.
    Model,
}

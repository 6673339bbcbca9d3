//! Which tokenizer the keys of a file are read as: that of llama.cpp, or the model's own.

/// How the keys are read where llama.cpp only approximates the model's own tokenizer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reading {
    /// As llama.cpp reads them: the same ids as its `llama_tokenize`.
    #[default]
    LlamaCpp,
    /// As the models read them: the expressions as those that a pre-tokenizer is named after
    /// state them, and the Unicode normalization (NFC) that they apply. The same ids as
    /// the model's own tokenizer, if the keys are right.
    Model,
}

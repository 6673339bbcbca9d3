//! Interpretation of the tokenizer keys of a file: as in llama.cpp, or as in the model's own tokenizer.

/// Interpretation of keys in cases where llama.cpp only approximates the model's own tokenizer.
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

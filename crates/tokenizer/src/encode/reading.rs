//! Interpretation of tokenizer keys: like llama.cpp, or like the model's own tokenizer.

/// Interpretation of keys in cases where llama.cpp only approximates the model's own tokenizer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reading {
    /// Produces the ids of llama.cpp's `llama_tokenize`.
    #[default]
    LlamaCpp,
    /// Produces the ids of the model's own tokenizer, if the keys are right: uses the original expressions of
    /// the named pre-tokenizer and its Unicode normalization (NFC).
    Model,
}

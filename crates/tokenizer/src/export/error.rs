//! Why tokenizer keys cannot be written as Hugging Face files.

/// Reason that a tokenizer cannot be exported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum ExportError {
    /// A key is missing, invalid or out of range.
    #[error(transparent)]
    Key(#[from] gguf_container::KeyError),
    /// A token is not valid UTF-8.
    #[error("token {id} is not UTF-8")]
    TokenNotText { id: usize },
    /// Token lists differ in length, or there are more tokens than rows of the embedding.
    #[error("`{key}`: expected {expected}, found {found} entries")]
    TokenCount { key: String, found: usize, expected: String },
    /// A kind of tokenizer, or a pre-tokenizer, cannot be exported.
    #[error("{subject} `{found}` cannot be written as tokenizer.json; supported: {}", known.join(", "))]
    Unsupported { subject: &'static str, found: String, known: Vec<&'static str> },
}

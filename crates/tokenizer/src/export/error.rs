//! Why tokenizer keys cannot be written as Hugging Face files.

/// Why a tokenizer cannot be exported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum ExportError {
    /// A key that is missing, of another type, or out of range.
    #[error(transparent)]
    Key(#[from] gguf_container::KeyError),
    /// A token that is not text.
    #[error("token {id} is not UTF-8")]
    TokenNotText { id: usize },
    /// Token lists of different length, or more tokens than rows of the embedding.
    #[error("`{key}`: expected {expected}, found {found} entries")]
    TokenCount {
        key: String,
        found: usize,
        /// The value it is compared with, including the number.
        expected: String,
    },
    /// A kind of tokenizer, or a pre-tokenizer, that cannot be exported.
    #[error("{subject} `{found}` cannot be written as tokenizer.json; supported: {}", known.join(", "))]
    Unsupported {
        subject: &'static str,
        /// Its name in the file.
        found: String,
        known: Vec<&'static str>,
    },
}

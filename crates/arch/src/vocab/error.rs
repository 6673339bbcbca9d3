//! What can be wrong with a checkpoint's tokenizer.

/// Why no tokenizer metadata could be made.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum VocabError {
    /// A kind of tokenizer that this program does not convert.
    #[error("not supported: {what}")]
    NotSupported {
        /// The kind.
        what: String,
    },
}

//! Errors of the tokenizer keys of a file.

/// Reason that a tokenizer could not be created from a file's keys, or text could not be encoded.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum Error {
    /// A required key is missing or invalid.
    #[error(transparent)]
    Key(#[from] gguf_container::KeyError),
    /// A list is shorter than the list of tokens.
    #[error("`{key}`: expected {expected} entries, one per token, found {found}")]
    TooShort { key: String, found: usize, expected: usize },
    #[error("`tokenizer.ggml.scores`: the score of token {id} (`{token}`) is {score}")]
    BadScore { id: u32, token: String, score: f32 },
    /// A merge does not consist of two texts separated by a space.
    #[error("`tokenizer.ggml.merges`: merge {index}: expected two tokens, found `{merge}`")]
    BadMerge { index: usize, merge: String },
    /// A merge of tokens that the vocabulary lacks.
    #[error(
        "`tokenizer.ggml.merges`: merge {index} (`{merge}`) needs token `{token}`, which is not in the vocabulary"
    )]
    MergeOfUnknown { index: usize, merge: String, token: String },
    /// The id of a special token is out of range.
    #[error("`{key}`: {id} is out of range for {tokens} tokens")]
    SpecialIdOutOfRange { key: String, id: u64, tokens: usize },
    /// Two tokens have the same text.
    #[error("duplicate token `{token}` (ids {first} and {second})")]
    RepeatedToken { token: String, first: u32, second: u32 },
    /// Unknown value of `tokenizer.ggml.model`.
    #[error("tokenizer model `{model}`: not supported")]
    UnknownModel { model: String },
    /// Value of `tokenizer.ggml.pre` that llama.cpp does not support.
    #[error("pre-tokenizer `{pre}` is unknown to llama.cpp")]
    UnknownPre { pre: String },
    /// A token is to be added to every text but not specified.
    #[error("missing metadata key `{key}` of a token that must be added")]
    NoSpecialToken { key: &'static str },
    /// The compiled character map is inconsistent.
    #[error("`tokenizer.ggml.precompiled_charsmap`: {problem}")]
    BadCharsmap { problem: &'static str },
    /// A byte has no token, and the vocabulary has no unknown token.
    #[error("missing token for byte 0x{byte:02X}")]
    NoByteToken { byte: u8 },
    /// A regular expression failed on a text.
    #[error("splitting the text by `{expression}`: {problem}")]
    Split { expression: String, problem: String },
    /// A token id is out of range.
    #[error("token id {id} is out of range for a vocabulary of {tokens} tokens")]
    NoSuchId { id: u32, tokens: usize },
}

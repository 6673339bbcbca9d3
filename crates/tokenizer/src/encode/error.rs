//! Errors of the tokenizer keys of a file.

/// Why no tokenizer could be made of a file's keys, or text could not be encoded with it.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum Error {
    /// A key that is needed is missing, or is not what it should be.
    #[error(transparent)]
    Key(#[from] gguf_container::KeyError),
    /// A list that is shorter than the list of tokens.
    #[error("`{key}`: expected {expected} entries, one per token, found {found}")]
    TooShort { key: String, found: usize, expected: usize },
    /// A score that is not a number.
    #[error("`tokenizer.ggml.scores`: the score of token {id} (`{token}`) is {score}")]
    BadScore { id: u32, token: String, score: f32 },
    /// A merge that is not two texts with a space between.
    #[error("`tokenizer.ggml.merges`: merge {index}: expected two tokens, found `{merge}`")]
    BadMerge { index: usize, merge: String },
    /// A merge of tokens that the vocabulary lacks.
    #[error(
        "`tokenizer.ggml.merges`: merge {index} (`{merge}`) needs token `{token}`, which is not in the vocabulary"
    )]
    MergeOfUnknown { index: usize, merge: String, token: String },
    /// A special token beyond the vocabulary.
    #[error("`{key}`: {id} is out of range for {tokens} tokens")]
    SpecialIdOutOfRange { key: String, id: u64, tokens: usize },
    /// Two tokens with one text.
    #[error("duplicate token `{token}` (ids {first} and {second})")]
    RepeatedToken {
        token: String,
        /// The id that has it first.
        first: u32,
        second: u32,
    },
    /// A value of `tokenizer.ggml.model` that is not known.
    #[error("tokenizer model `{model}`: not supported")]
    UnknownModel { model: String },
    /// A value of `tokenizer.ggml.pre` that llama.cpp does not load.
    #[error("pre-tokenizer `{pre}` is unknown to llama.cpp")]
    UnknownPre { pre: String },
    /// A token that is to be added around every text, but is not named.
    #[error("missing metadata key `{key}` of a token that must be added")]
    NoSpecialToken {
        /// The key that would name it.
        key: &'static str,
    },
    /// A compiled character map that contradicts itself.
    #[error("`tokenizer.ggml.precompiled_charsmap`: {problem}")]
    BadCharsmap { problem: &'static str },
    /// A byte of the text that has no token, in a vocabulary without an unknown token.
    #[error("missing token for byte 0x{byte:02X}")]
    NoByteToken { byte: u8 },
    /// A text on which a regular expression failed.
    #[error("splitting the text by `{expression}`: {problem}")]
    Split { expression: String, problem: String },
    /// An id beyond the vocabulary.
    #[error("token id {id} is out of range for a vocabulary of {tokens} tokens")]
    NoSuchId { id: u32, tokens: usize },
}

//! Errors of the tokenizer keys of a file.

/// Why no tokenizer could be made of a file's keys, or text could not be encoded with it.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A key that is needed is missing, or is not what it should be.
    #[error(transparent)]
    Key(#[from] gguf_container::KeyError),
    /// A list that is shorter than the list of tokens.
    #[error("`{key}`: expected {expected} entries, one per token, found {found}")]
    TooShort {
        /// The key.
        key: String,
        /// Its length.
        found: usize,
        /// Number of tokens.
        expected: usize,
    },
    /// A score that is not a number.
    #[error("`tokenizer.ggml.scores`: the score of token {id} (`{token}`) is {score}")]
    BadScore {
        /// The token's id.
        id: u32,
        /// Its text.
        token: String,
        /// Value found.
        score: f32,
    },
    /// A merge that is not two texts with a space between.
    #[error("`tokenizer.ggml.merges`: merge {index}: expected two tokens, found `{merge}`")]
    BadMerge {
        /// Its position.
        index: usize,
        /// Value found.
        merge: String,
    },
    /// A merge of tokens that the vocabulary lacks.
    #[error(
        "`tokenizer.ggml.merges`: merge {index} (`{merge}`) needs token `{token}`, which is not in the vocabulary"
    )]
    MergeOfUnknown {
        /// Its position.
        index: usize,
        /// Value found.
        merge: String,
        /// The absent token.
        token: String,
    },
    /// A special token beyond the vocabulary.
    #[error("`{key}`: {id} is out of range for {tokens} tokens")]
    SpecialIdOutOfRange {
        /// The key.
        key: String,
        /// Its value.
        id: u64,
        /// Number of tokens.
        tokens: usize,
    },
    /// Two tokens with one text.
    #[error("duplicate token `{token}` (ids {first} and {second})")]
    RepeatedToken {
        /// The text.
        token: String,
        /// The id that has it first.
        first: u32,
        /// The other id.
        second: u32,
    },
    /// A value of `tokenizer.ggml.model` that is not known.
    #[error("tokenizer model `{model}`: not supported")]
    UnknownModel {
        /// The value.
        model: String,
    },
    /// A value of `tokenizer.ggml.pre` that llama.cpp does not load.
    #[error("pre-tokenizer `{pre}` is unknown to llama.cpp")]
    UnknownPre {
        /// The value.
        pre: String,
    },
    /// A token that is to be added around every text, but is not named.
    #[error("missing metadata key `{key}` of a token that must be added")]
    NoSpecialToken {
        /// The key that would name it.
        key: &'static str,
    },
    /// A compiled character map that contradicts itself.
    #[error("`tokenizer.ggml.precompiled_charsmap`: {problem}")]
    BadCharsmap {
        /// The problem.
        problem: &'static str,
    },
    /// A byte of the text that has no token, in a vocabulary without an unknown token.
    #[error("missing token for byte 0x{byte:02X}")]
    NoByteToken {
        /// The byte.
        byte: u8,
    },
    /// A text on which a regular expression failed.
    #[error("splitting the text by `{expression}`: {problem}")]
    Split {
        /// The expression.
        expression: String,
        /// Error of the engine.
        problem: String,
    },
    /// An id beyond the vocabulary.
    #[error("token id {id} is out of range for a vocabulary of {tokens} tokens")]
    NoSuchId {
        /// The id.
        id: u32,
        /// Number of tokens.
        tokens: usize,
    },
}

//! Token types: one numbering for SentencePiece, GGUF and exported tokenizers.

/// Token type, with the numbers of llama.cpp and SentencePiece.
///
/// Source: `TokenType` in `gguf-py/gguf/constants.py`, `SentencePiece.Type` in `sentencepiece_model.proto`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TokenType {
    Normal = 1,
    /// Represents text that the vocabulary cannot spell.
    Unknown = 2,
    /// Controls the model and is not displayed.
    Control = 3,
    /// Added text, matched before all others.
    UserDefined = 4,
    /// An id without a token.
    Unused = 5,
    Byte = 6,
}

impl TokenType {
    pub(crate) fn id(self) -> i32 {
        self as i32
    }

    /// Type with this number; `None` for an undefined number.
    pub(crate) fn from_id(id: i32) -> Option<TokenType> {
        use TokenType::{Byte, Control, Normal, Unknown, Unused, UserDefined};
        [Normal, Unknown, Control, UserDefined, Unused, Byte].into_iter().find(|kind| kind.id() == id)
    }

    /// Type of an added token: special ones are control tokens, others are text.
    pub(crate) fn for_added(special: bool) -> TokenType {
        if special { TokenType::Control } else { TokenType::UserDefined }
    }
}

//! Token types: one numbering for SentencePiece, GGUF and exported tokenizers.

/// Token type, as llama.cpp and SentencePiece number it.
///
/// Source: `TokenType` in `gguf-py/gguf/constants.py`, `SentencePiece.Type` in `sentencepiece_model.proto`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TokenType {
    /// Ordinary text.
    Normal = 1,
    /// Stands for what the vocabulary cannot spell.
    Unknown = 2,
    /// Steers the model, is not shown.
    Control = 3,
    /// Added text, matched before all others.
    UserDefined = 4,
    /// A place without a token.
    Unused = 5,
    /// One byte.
    Byte = 6,
}

impl TokenType {
    /// The number in files.
    pub(crate) fn id(self) -> i32 {
        self as i32
    }

    /// The type of a number; nothing for a number that stands for none.
    pub(crate) fn from_id(id: i32) -> Option<TokenType> {
        use TokenType::{Byte, Control, Normal, Unknown, Unused, UserDefined};
        [Normal, Unknown, Control, UserDefined, Unused, Byte].into_iter().find(|kind| kind.id() == id)
    }

    /// The type of an added token: special ones steer the model, others are text.
    pub(crate) fn for_added(special: bool) -> TokenType {
        if special { TokenType::Control } else { TokenType::UserDefined }
    }
}

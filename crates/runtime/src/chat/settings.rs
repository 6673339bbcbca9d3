//! Variables of a template besides the chat, and errors.

use super::{date::Date, special::SpecialTokens};

/// Why a template cannot be applied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChatError {
    /// The file has none.
    #[error("missing metadata key `tokenizer.chat_template`")]
    Absent,
    /// It is the name of a template of llama.cpp that is not known here.
    #[error("`tokenizer.chat_template`: unknown template name `{0}`")]
    Named(String),
    /// It does not parse.
    #[error("`tokenizer.chat_template`: {0}")]
    Syntax(String),
    /// It says itself that it does not take these messages.
    #[error("`tokenizer.chat_template`: {0}")]
    Refused(String),
    /// It fails on these messages.
    #[error("`tokenizer.chat_template`: {0}")]
    Template(String),
}

/// A template's treatment of the system message of a chat.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SystemMessage {
    /// The prompt has it, or the chat has none.
    #[default]
    Kept,
    /// The template leaves it out.
    LeftOut,
    /// The template refuses it, so the next message begins with it ([`Chat::with_system_in_next`](super::Chat::with_system_in_next)).
    InNext,
}

/// Variables of a template besides the chat.
#[derive(Debug, Clone)]
pub struct Settings<'a> {
    /// Texts of the special tokens.
    pub tokens: &'a SpecialTokens,
    /// Adds the beginning of the model's own turn.
    pub generation_prompt: bool,
    /// The day that `strftime_now` prints.
    pub date: Date,
}

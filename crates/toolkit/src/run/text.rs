//! Texts that models read: files, or bytes in memory.

use std::path::{Path, PathBuf};

use gguf_runtime::Model;
use gguf_types::hex;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::{
    calibration_text::{BUILT_IN, built_in_sha256},
    cause::Cause,
    chats,
    digest::sha256_of,
    error::Error,
    eval_model,
    events::Events,
};

/// A text for a model to read.
///
/// # Examples
/// ```
/// use gguf_toolkit::Text;
///
/// let text = Text::of("The quick brown fox.");
/// assert_eq!(text.path(), None);
/// let file: Text = serde_json::from_str(r#"{"file": "wiki.test.raw"}"#)?;
/// assert_eq!(file, Text::file("wiki.test.raw"));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Text {
    /// A file.
    File(PathBuf),
    /// Bytes in memory, which need not be UTF-8.
    Bytes(Vec<u8>),
}

impl Default for Text {
    /// An empty text.
    fn default() -> Text {
        Text::Bytes(Vec::new())
    }
}

impl Text {
    /// The text in a file.
    pub fn file(path: impl Into<PathBuf>) -> Text {
        Text::File(path.into())
    }

    /// A text in memory.
    pub fn of(bytes: impl Into<Vec<u8>>) -> Text {
        Text::Bytes(bytes.into())
    }

    /// The path of a file; `None` for a text in memory.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Text::File(path) => Some(path),
            Text::Bytes(_) => None,
        }
    }

    /// Name of the text in results.
    pub(crate) fn name(&self) -> String {
        self.path().map_or_else(|| "(memory)".to_owned(), |path| path.display().to_string())
    }

    /// SHA-256 of the bytes, in hexadecimal.
    pub(crate) fn sha256(&self) -> Result<String, Error> {
        match self {
            Text::File(path) if path.as_os_str() == BUILT_IN => Ok(built_in_sha256()),
            Text::File(path) => sha256_of(path),
            Text::Bytes(bytes) => Ok(hex(&Sha256::digest(bytes))),
        }
    }

    /// A problem with the text, at its file; a text in memory has the path of the model that reads it.
    pub(crate) fn failed(&self, model: &Path, cause: impl Into<Cause>) -> Error {
        Error::at(self.path().unwrap_or(model), cause)
    }

    /// Tokens of the text, with the special tokens that the model at `path` adds around a text.
    ///
    /// # Errors
    /// A file that cannot be read, or a text that cannot be tokenized.
    pub(crate) fn tokens(&self, path: &Path, model: &Model, events: &dyn Events) -> Result<Vec<u32>, Error> {
        match self {
            Text::File(file) => eval_model::tokens(model, file, events),
            Text::Bytes(bytes) => {
                model.tokenizer().encode(bytes, true, false).map_err(|error| Error::at(path, error))
            }
        }
    }

    /// Tokens of the text. A file whose name ends in `.jsonl` is read as chats, and `builtin` stands for the built-in calibration text.
    ///
    /// # Errors
    /// As [`Text::tokens`] and [`chats::rendered`].
    pub(crate) fn tokens_or_chats(
        &self,
        path: &Path,
        model: &Model,
        events: &dyn Events,
    ) -> Result<Vec<u32>, Error> {
        match self {
            Text::File(file) => chats::tokens(model, file, events),
            Text::Bytes(_) => self.tokens(path, model, events),
        }
    }
}

//! Texts to calibrate with and to measure on: files, chats in the form that the model's template gives them, or a small built-in mix.

use std::path::{Path, PathBuf};

use gguf_runtime::{
    Model,
    chunks::{Chunk, Settings, text_chunks},
};
use gguf_types::hex;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::{
    chats,
    error::Error,
    events::Events,
    run,
    text::{file_name, printable},
};
use gguf_types::words;

/// Default text for calibration.
const CALIBRATION_MIX: &str = include_str!("mix/calibration.txt");
/// Default text for measurements; it shares nothing with the other mix.
const EVALUATION_MIX: &str = include_str!("mix/evaluation.txt");

/// Beginning of the names of both.
const BUILT_IN: &str = "the built-in ";

/// Purpose of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum For {
    Calibration,
    Evaluation,
}

/// Name of a text, and digest of its file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Named {
    pub name: String,
    /// SHA-256 of its bytes, in hexadecimal; `None` for the default texts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

impl Named {
    /// The text in a file.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn of(path: &Path) -> Result<Named, Error> {
        Ok(Named { name: file_name(path), sha256: Some(run::Text::file(path).sha256()?) })
    }
}

/// Names of texts, comma-separated.
pub fn names(texts: &[Named]) -> String {
    texts.iter().map(|text| text.name.as_str()).collect::<Vec<_>>().join(", ")
}

/// A text that was read.
#[derive(Debug, Clone)]
pub struct Text {
    /// Its files, or the built-in mix.
    pub files: Vec<Named>,
    /// SHA-256 of its tokens, in hexadecimal.
    pub digest: String,
    /// The windows that it has.
    pub windows: Vec<Chunk>,
}

impl Text {
    /// Notes that a built-in text is used, and how short it is. `name` is the option for another.
    pub fn tell_small(&self, what: &str, name: &'static str, events: &dyn Events) {
        let n = self.windows.len();
        let tokens = self.windows.iter().map(|window| window.tokens.len()).sum::<usize>();
        events.note(words!("{} a small built-in text of {} chunks with {} tokens; pass a text similar to what the model will process with [-{}]", what, n, tokens, name));
    }
}

/// Reads texts in order, and cuts them into windows of `context` tokens.
///
/// # Errors
/// A file that cannot be read or tokenized, a template that fails, less than two windows.
pub fn read(
    model: &Model,
    files: &[PathBuf],
    purpose: For,
    context: usize,
    events: &dyn Events,
) -> Result<Text, Error> {
    let (mut named, mut tokens) = (Vec::new(), Vec::new());
    for file in files {
        tokens.extend(chats::tokens(model, file, events)?);
        named.push(Named::of(file)?);
    }
    if files.is_empty() {
        let (name, mix) = match purpose {
            For::Calibration => ("calibration", CALIBRATION_MIX),
            For::Evaluation => ("evaluation", EVALUATION_MIX),
        };
        named.push(Named { name: format!("{BUILT_IN}{name} text of gguf-tools"), sha256: None });
        tokens = model.tokenizer().encode(mix, true, false).map_err(Error::new)?;
    }
    let settings = Settings { context, n_chunks: None, stride: None };
    let windows = text_chunks(model, &tokens, &settings)
        .map_err(|error| Error::at(&PathBuf::from(printable(&names(&named))), error))?;
    Ok(Text { files: named, digest: digest_of(&tokens), windows })
}

/// SHA-256 of tokens, in hexadecimal.
fn digest_of(tokens: &[u32]) -> String {
    let mut hasher = Sha256::new();
    tokens.iter().for_each(|token| hasher.update(token.to_le_bytes()));
    hex(&hasher.finalize())
}

/// Digests of the tokens of each text.
///
/// # Errors
/// A file that cannot be read or tokenized, a template that fails.
pub fn digests(model: &Model, files: &[PathBuf], events: &dyn Events) -> Result<Vec<String>, Error> {
    files.iter().map(|file| Ok(digest_of(&chats::tokens(model, file, events)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixes_share_no_line() {
        let lines = |text: &'static str| text.lines().map(str::trim).filter(|line| line.len() > 20);
        for line in lines(EVALUATION_MIX) {
            assert!(!lines(CALIBRATION_MIX).any(|other| other == line), "{line}");
        }
    }
}

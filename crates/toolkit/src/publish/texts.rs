//! Texts to calibrate with and to measure on: files, chats in the form that the model's template gives them, or a small built-in mix.

use std::path::PathBuf;

use gguf_runtime::{
    Model,
    chunks::{Chunk, Settings, text_chunks},
};
use gguf_types::hex;
use sha2::{Digest, Sha256};

use crate::{
    chats,
    error::Error,
    events::Events,
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

/// A text that was read.
#[derive(Debug, Clone)]
pub struct Text {
    /// Name of the text in the card: its files, or the built-in mix.
    pub names: Vec<String>,
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
    let (mut names, mut tokens) = (Vec::new(), Vec::new());
    for file in files {
        names.push(file_name(file));
        tokens.extend(chats::tokens(model, file, events)?);
    }
    if files.is_empty() {
        let (name, mix) = match purpose {
            For::Calibration => ("calibration", CALIBRATION_MIX),
            For::Evaluation => ("evaluation", EVALUATION_MIX),
        };
        names.push(format!("{BUILT_IN}{name} text of gguf-tools"));
        tokens = model.tokenizer().encode(mix, true, false).map_err(Error::new)?;
    }
    let settings = Settings { context, n_chunks: None, stride: None };
    let windows = text_chunks(model, &tokens, &settings)
        .map_err(|error| Error::at(&PathBuf::from(printable(&names.join(", "))), error))?;
    Ok(Text { names, digest: digest_of(&tokens), windows })
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

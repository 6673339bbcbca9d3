//! Texts to calibrate with and to measure on: files, chats in the form that the model's template gives them, or a small mix of our own.

use std::{fs, path::PathBuf};

use eval::{
    Model,
    chat::transcripts,
    chunks::{Chunk, Settings, chunks_of_text},
};
use sha2::{Digest, Sha256};

use super::work::hex;
use crate::{
    commands::shared::{eval_model::at, template_guard::guarded},
    failure::Failure,
    ui::{Ui, printable},
};

/// The mix that calibrates where no file is given.
const CALIBRATION_MIX: &str = include_str!("mix/calibration.txt");
/// What is measured where no file is given; none of it is in the other.
const EVALUATION_MIX: &str = include_str!("mix/evaluation.txt");

/// What a text is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum For {
    Calibration,
    Evaluation,
}

/// A text that was read.
#[derive(Debug, Clone)]
pub struct Text {
    /// What it is called in the card: the names of its files, or that it is ours.
    pub names: Vec<String>,
    /// SHA-256 of its tokens, in hexadecimal.
    pub digest: String,
    /// The windows that it has.
    pub windows: Vec<Chunk>,
}

/// Reads texts one after the other, and cuts them into windows of `context` tokens.
///
/// # Errors
/// A file that cannot be read or tokenized, a template that fails, less than two windows.
pub fn read(
    model: &Model,
    files: &[PathBuf],
    purpose: For,
    context: usize,
    ui: &Ui,
) -> Result<Text, Failure> {
    let (mut names, mut tokens) = (Vec::new(), Vec::new());
    for file in files {
        names.push(file.file_name().unwrap_or(file.as_os_str()).to_string_lossy().into_owned());
        let bytes = fs::read(file).map_err(|error| Failure::cannot_open(file, error))?;
        let is_chats = file.extension().is_some_and(|it| it.eq_ignore_ascii_case("jsonl"));
        let read = match is_chats {
            true => chats(model, &bytes, ui).map_err(|problem| Failure::at(file, problem))?,
            false => {
                model.tokenizer().encode(bytes, true, false).map_err(|error| Failure::at(file, error))?
            }
        };
        tokens.extend(read);
    }
    if files.is_empty() {
        let (name, mix) = match purpose {
            For::Calibration => ("the mix of gguf-tools for calibration", CALIBRATION_MIX),
            For::Evaluation => ("the mix of gguf-tools for evaluation", EVALUATION_MIX),
        };
        names.push(name.to_owned());
        tokens = model.tokenizer().encode(mix, true, false).map_err(Failure::new)?;
    }
    let mut hasher = Sha256::new();
    tokens.iter().for_each(|token| hasher.update(token.to_le_bytes()));
    let settings = Settings { context, n_chunks: None, stride: None };
    let windows = chunks_of_text(model, &tokens, &settings)
        .map_err(|error| at(&PathBuf::from(printable(&names.join(", "))), error))?;
    Ok(Text { names, digest: hex(&hasher.finalize()), windows })
}

/// Tokens of a file of chats (see [`eval::chat::Chat::parse`]).
///
/// # Errors
/// A line that holds no chat, or that the template does not take.
pub fn chats(model: &Model, bytes: &[u8], ui: &Ui) -> Result<Vec<u32>, String> {
    let tokenizer = model.tokenizer();
    let text_of = |id: Option<u32>| {
        let text = id.and_then(|id| tokenizer.token_text(id));
        text.map_or_else(String::new, |text| String::from_utf8_lossy(text).into_owned())
    };
    let (bos, eos) = (text_of(tokenizer.bos()), text_of(tokenizer.eos()));
    let template = model.file().metadata().text("tokenizer.chat_template").ok().flatten();
    let template = template.ok_or("the model has no chat template to render it with")?;
    let (template, lines) = (template.to_owned(), bytes.to_vec());
    let made = guarded(move || transcripts(Some(&template), &bos, &eos, &lines));
    let made = made.map_err(|failure| failure.message)?;
    let made = made.map_err(|(line, problem)| format!("line {line}: {problem}"))?;
    if let Some(warning) = made.warning() {
        ui.warning(&warning);
    }
    let mut tokens = Vec::new();
    for text in &made.texts {
        // Special tokens are the template's own, so that none is put in front of them.
        tokens.extend(tokenizer.encode(text, false, true).map_err(|error| error.to_string())?);
    }
    Ok(tokens)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_mixes_have_no_line_in_common() {
        let lines = |text: &'static str| text.lines().map(str::trim).filter(|line| line.len() > 20);
        for line in lines(EVALUATION_MIX) {
            assert!(!lines(CALIBRATION_MIX).any(|other| other == line), "{line}");
        }
    }
}

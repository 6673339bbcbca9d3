//! Prompts with pictures: reads files, computes rows of projectors, and places them among tokens.

use std::{
    fs::File,
    io::Read,
    path::{Path, PathBuf},
};

use gguf_runtime::{
    Embedding, Model, Piece,
    vision::{Picture, Projector},
};

use super::{GenerateOptions, RunOptions};
use crate::{
    error::Error,
    events::Events,
    input_kind::{self, Wanted},
};

/// Placeholder of an image in a prompt, as in llama.cpp's `llama-mtmd-cli`.
pub(super) const PLACE: &str = "<__media__>";

/// Maximum size of an image file in bytes, larger than any camera's.
const MAX_BYTES: u64 = 256 << 20;

/// Pictures, ready for a prompt.
pub(super) struct Pictures {
    projector: Projector,
    embeddings: Vec<Embedding>,
}

impl Pictures {
    /// Opens the projector of `options` for a model, and makes rows of its images; `None` without a projector.
    ///
    /// # Errors
    /// A projector or picture that cannot be read.
    pub fn open(
        model: &Model,
        options: &GenerateOptions,
        run: &RunOptions,
        events: &dyn Events,
    ) -> Result<Option<Pictures>, Error> {
        let Some(mmproj) = &options.mmproj else { return Ok(None) };
        let projector = Projector::open(mmproj, &run.of_runtime())
            .map_err(|error| input_kind::explained(mmproj, Wanted::Projector, Error::at(mmproj, error)))?;
        projector.check_fits(model).map_err(|error| Error::at(mmproj, error))?;
        // A mark that is missing in the vocabulary is tokenized as letters, on which no model was trained.
        let (begin, end) = projector.marks();
        for mark in [begin.trim(), end.trim()].into_iter().filter(|mark| !mark.is_empty()) {
            let ids = model.tokenizer().encode(mark, false, true).unwrap_or_default();
            if !ids.iter().any(|id| model.tokenizer().token_text(*id) == Some(mark.as_bytes())) {
                events.warning(&format!(
                    "missing token `{mark}` in the vocabulary; the projector may belong to another model"
                ));
            }
        }
        let embed = |path: &PathBuf| {
            let picture = Picture::read(&read(path)?).map_err(|error| Error::at(path, error))?;
            projector.embed(&picture, options.image_tokens).map_err(|error| Error::at(path, error))
        };
        let embeddings = options.images.iter().map(embed).collect::<Result<Vec<_>, _>>()?;
        Ok(Some(Pictures { projector, embeddings }))
    }

    /// The prompt with a placeholder for each picture, added at the start if it has none.
    ///
    /// # Errors
    /// A prompt whose number of placeholders differs from that of the pictures.
    pub fn with_places(&self, prompt: &str) -> Result<String, Error> {
        let (found, expected) = (prompt.matches(PLACE).count(), self.embeddings.len());
        match found {
            0 => Ok(PLACE.repeat(expected) + prompt),
            _ if found == expected => Ok(prompt.to_owned()),
            _ => Err(Error::usage(format_args!(
                "expected {expected} image placeholders (`{PLACE}`) in the prompt, found {found}"
            ))),
        }
    }

    /// Tokens between placeholders, with those before and after each image.
    ///
    /// # Errors
    /// A template that drops or duplicates placeholders; an error of the tokenizer.
    pub fn tokens(
        &self,
        file: &Path,
        model: &Model,
        text: &str,
        begins: bool,
    ) -> Result<Vec<Vec<u32>>, Error> {
        let parts: Vec<&str> = text.split(PLACE).collect();
        if parts.len() != self.embeddings.len() + 1 {
            let (found, expected) = (parts.len() - 1, self.embeddings.len());
            let problem = format!("`tokenizer.chat_template` keeps {found} of {expected} image placeholders");
            return Err(Error::at(file, problem).hint(["omit --chat to pass the prompt unchanged"]));
        }
        let (begin, end) = self.projector.marks();
        let last = parts.len() - 1;
        let tokens = parts.iter().enumerate().map(|(i, part)| {
            let before = if i > 0 { end } else { "" };
            let suffix = if i < last { begin } else { "" };
            // Marks are tokenized with the text around them: adjacent spaces become one token.
            model.tokenizer().encode(format!("{before}{part}{suffix}"), i == 0 && begins, true)
        });
        tokens.collect::<Result<_, _>>().map_err(|error| Error::at(file, error))
    }

    /// Tokens and pictures in turn.
    pub fn pieces<'a>(&'a self, tokens: &'a [Vec<u32>]) -> Vec<Piece<'a>> {
        let mut pieces = Vec::new();
        for (i, tokens) in tokens.iter().enumerate() {
            pieces.push(Piece::Tokens(tokens));
            pieces.extend(self.embeddings.get(i).map(Piece::Picture));
        }
        pieces
    }
}

/// The bytes of a picture's file.
fn read(path: &Path) -> Result<Vec<u8>, Error> {
    let file = File::open(path).map_err(|error| Error::cannot_open(path, error))?;
    let mut bytes = Vec::new();
    let read = file.take(MAX_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(|error| Error::cannot_open(path, error))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(Error::at(path, format_args!("the image exceeds the limit of {} MiB", MAX_BYTES >> 20)));
    }
    Ok(bytes)
}

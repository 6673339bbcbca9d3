//! Texts for calibration that are not files of the user: the built-in text, and samples drawn from the model.
//!
//! Options take one of two words instead of a file. A file with such a name is written with a folder, as in `./builtin`.

mod built_in;
mod sampled;

use std::path::Path;

use crate::error::Error;

pub use self::{
    built_in::{chunks as built_in_chunks, sha256 as built_in_sha256, tokens as built_in_tokens},
    sampled::chunks as sampled_chunks,
};

/// Stands for the built-in text in options that take calibration texts.
pub const BUILT_IN: &str = "builtin";

/// Stands for samples drawn from the model itself in options that take calibration texts.
pub const SAMPLED: &str = "self";

/// Origin of a calibration text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source<'a> {
    /// A file.
    File(&'a Path),
    /// The built-in text.
    BuiltIn,
    /// Samples drawn from the model.
    Sampled,
}

impl Source<'_> {
    /// The origin that `path` stands for.
    ///
    /// # Errors
    /// One of the two words if there is also a file with that name.
    pub fn of(path: &Path) -> Result<Source<'_>, Error> {
        let source = match path.to_str() {
            Some(BUILT_IN) => Source::BuiltIn,
            Some(SAMPLED) => Source::Sampled,
            _ => return Ok(Source::File(path)),
        };
        if path.exists() {
            let name = path.display();
            let message = format!("`{name}` is ambiguous: a file has this name");
            return Err(Error::usage(message).hint([format!("pass ./{name} for the file, or rename it")]));
        }
        Ok(source)
    }
}

/// True for a word that stands for a text without a file.
pub fn is_word(path: &Path) -> bool {
    path.to_str().is_some_and(|text| [BUILT_IN, SAMPLED].contains(&text))
}

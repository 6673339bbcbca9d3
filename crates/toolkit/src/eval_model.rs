//! Opens a model to run it, reads and tokenizes a text.

use std::path::Path;

use eval::{Model, Options};

use crate::{
    error::Error,
    events::Events,
    input_kind::{self, Wanted},
    text_file,
};

/// Opens a model, and warns of what is odd about it.
///
/// # Errors
/// What is wrong with the file or with the options.
pub fn open(path: &Path, options: &Options, events: &dyn Events) -> Result<Model, Error> {
    let failed = |error| input_kind::explained(path, Wanted::Gguf, at(path, error));
    let model = Model::open(path, options).map_err(failed)?;
    if let Some(pre) = model.tokenizer().unknown_pre() {
        events.warning(&format!("{}: `tokenizer.ggml.pre`: `{pre}` is unknown to llama.cpp", path.display()));
    }
    Ok(model)
}

/// Warns where a model is going to see more tokens at once than it was trained on.
pub fn warn_of_length(model: &Model, n_tokens: usize, events: &dyn Events) {
    let limit = model.context_length();
    if limit > 0 && n_tokens > limit {
        let key = format!("{}.context_length", model.architecture());
        events.warning(&format!("{n_tokens} tokens exceed `{key}` ({limit})"));
    }
}

/// The failure of a model's file.
pub fn at(path: &Path, error: eval::Error) -> Error {
    match error {
        eval::Error::Gguf(error) => Error::at(path, error),
        error => Error::at(path, error),
    }
}

/// The failure of an open model, with the path of its first file.
pub fn of_open(model: &Model, error: eval::Error) -> Error {
    match model.file().shards().first() {
        Some((path, _)) => at(path, error),
        None => Error::new(error),
    }
}

/// The failure of a base or of one of the others, with the file that is at fault.
pub fn of_model(base: &Path, others: &[impl AsRef<Path>], error: eval::Error) -> Error {
    match error {
        eval::Error::OfOther { index, error } => at(others.get(index).map_or(base, AsRef::as_ref), *error),
        error => at(base, error),
    }
}

/// The tokens of a text file, with the special tokens that the model's keys want around a text.
///
/// # Errors
/// What the system or the tokenizer says.
pub fn tokens(model: &Model, text: &Path, events: &dyn Events) -> Result<Vec<u32>, Error> {
    let bytes = text_file::of_model(text, events)?;
    model.tokenizer().encode(bytes, true, false).map_err(|error| Error::at(text, error))
}

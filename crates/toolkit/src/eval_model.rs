//! Opens a model to run it, reads and tokenizes a text.

use std::{num::NonZeroUsize, path::Path};

use gguf_container::Metadata;
use gguf_runtime::{Activations, Model, Options, report::ENOUGH_CHUNKS};
use gguf_tokenizer::Problem;

use crate::{
    adapter,
    error::Error,
    events::Events,
    input_kind::{self, Wanted},
    text_file,
    threads::useful_threads,
};
use gguf_types::{Words, counted, words};

/// Options for running a model on at most as many threads as the machine has.
pub fn options(threads: Option<NonZeroUsize>, activations: Activations) -> Options {
    Options { activations, threads: Some(useful_threads(threads)), ..Options::new(gguf_models::GRAPHS) }
}

/// Opens a model, and warns about an unknown pre-tokenizer, keys that llama.cpp does not read, unused tensors of adapters,
/// and adapters that are applied twice.
///
/// # Errors
/// A file that cannot be read or run.
pub fn open(path: &Path, options: &Options, events: &dyn Events) -> Result<Model, Error> {
    let failed = |error| match error {
        gguf_runtime::Error::Adapter { path, error } => adapter::refused(&path, error),
        error => input_kind::explained(path, Wanted::Gguf, Error::at(path, error)),
    };
    let model = Model::open(path, options).map_err(failed)?;
    if let Some(pre) = model.tokenizer().unknown_pre() {
        events.warning(format!("{}: `tokenizer.ggml.pre`: `{pre}` is unknown to llama.cpp", path.display()));
    }
    warn_of_tokenizer(path, model.file().metadata(), events);
    for message in gguf_layout::ignored_keys(&gguf_models::FAMILIES, model.file().metadata()) {
        events.warning(format!("{}: {message}", path.display()));
    }
    let warnings = model.adapters().iter().filter_map(|(adapter, _)| adapter::warning_of_norms(adapter));
    warnings.for_each(|warning| events.warning(&warning));
    let adapters = model.adapters().iter();
    let merged =
        adapters.filter_map(|(adapter, _)| adapter::warning_of_merged(adapter, model.file().metadata()));
    merged.for_each(|warning| events.warning(warning));
    Ok(model)
}

/// Warns if a file gives text other tokens than its model, or ends it at ordinary text.
pub fn warn_of_tokenizer(path: &Path, metadata: &Metadata, events: &dyn Events) {
    for problem in gguf_tokenizer::doubts(metadata) {
        let file = path.display();
        let advice = match problem {
            Problem::NoPre => {
                words!("; set it with `[gguf-inspect set {} tokenizer.ggml.pre=NAME]`", file)
            }
            _ => Words::default(),
        };
        events.warning(words!("{}: {}", file, problem) + advice);
    }
}

/// Warns if a model gets more tokens at once than it was trained on.
pub fn warn_of_length(model: &Model, n_tokens: usize, events: &dyn Events) {
    if let Some(problem) = problem_of_length(model, n_tokens) {
        events.warning(&problem);
    }
}

/// True if metrics of this number of chunks are imprecise.
pub fn are_few_chunks(n_chunks: usize) -> bool {
    n_chunks < ENOUGH_CHUNKS
}

/// Warns if metrics are going to be measured on few chunks.
pub fn warn_of_few_chunks(n_chunks: usize, events: &dyn Events) {
    if are_few_chunks(n_chunks) {
        events.warning(words!(
            "{} of text: the metrics are imprecise; use {} or more (a longer text, a larger [-chunks])",
            counted(n_chunks, "chunk"),
            ENOUGH_CHUNKS
        ));
    }
}

/// Warns if a model gets a text of more tokens than it was trained on.
pub fn warn_of_text(model: &Model, name: &str, n_tokens: usize, events: &dyn Events) {
    if let Some(problem) = problem_of_length(model, n_tokens) {
        events.warning(format!("{name}: {problem}"));
    }
}

fn problem_of_length(model: &Model, n_tokens: usize) -> Option<String> {
    let limit = model.context_length();
    let key = || format!("{}.context_length", model.architecture());
    (limit > 0 && n_tokens > limit).then(|| format!("{n_tokens} tokens exceed `{}` ({limit})", key()))
}

/// The failure of an open model, with the path of its first file.
pub fn of_open(model: &Model, error: gguf_runtime::Error) -> Error {
    match model.file().shards().first() {
        Some((path, _)) => Error::at(path, error),
        None => Error::new(error),
    }
}

/// The failure of a base or of one of the others, with the file that is at fault.
pub fn of_model(base: &Path, others: &[impl AsRef<Path>], error: gguf_runtime::Error) -> Error {
    match error {
        gguf_runtime::Error::OfOther { index, error } => {
            Error::at(others.get(index).map_or(base, AsRef::as_ref), *error)
        }
        error => Error::at(base, error),
    }
}

/// The tokens of a text file, with the special tokens that the model adds around a text.
///
/// # Errors
/// A text that cannot be read or tokenized.
pub fn tokens(model: &Model, text: &Path, events: &dyn Events) -> Result<Vec<u32>, Error> {
    let bytes = text_file::of_model(text, events)?;
    model.tokenizer().encode(bytes, true, false).map_err(|error| Error::at(text, error))
}

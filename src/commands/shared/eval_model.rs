//! Common code of the verbs of `gguf-eval`: opens a model, reads and tokenizes a text.

use std::{num::NonZeroUsize, path::Path};

use clap::{
    Args,
    builder::{PossibleValuesParser, TypedValueParser},
};
use eval::{Activations, Error, Model, Options};

use crate::{
    commands::shared::{
        cpu_level::cpu_level,
        input_kind::{self, Wanted},
        text_file,
        threads::{parse_threads, useful_threads},
    },
    failure::Failure,
    hints,
    ui::Ui,
};

/// Options of the verbs that run a model.
#[derive(Debug, Args)]
pub(in crate::commands) struct RunArgs {
    /// Use N threads.
    ///
    /// Default: one per core, which is also the maximum.
    #[arg(short = 'j', long, value_name = "N", value_parser = parse_threads)]
    pub threads: Option<NonZeroUsize>,
    /// Set the precision of activations.
    ///
    /// `f32` (the default) does not round them. `rounded` rounds them as the CPU kernels of llama.cpp do, so that
    /// results can be compared with llama.cpp's.
    #[arg(long, value_name = "KIND", value_parser = activations(), hide_possible_values = true, hide_short_help = true)]
    pub activations: Option<Activations>,
    /// Print only errors.
    #[arg(short, long)]
    pub quiet: bool,
}

fn activations() -> impl TypedValueParser<Value = Activations> {
    PossibleValuesParser::new(Activations::ALL.iter().map(|kind| kind.name()))
        .map(|name| Activations::ALL.iter().copied().find(|kind| kind.name() == name).unwrap_or_default())
}

/// Options for running a model.
pub(in crate::commands) fn options(run: &RunArgs) -> Options {
    let threads = Some(useful_threads(run.threads));
    Options { threads, activations: run.activations.unwrap_or_default() }
}

/// Opens a model, and warns of what is odd about it.
///
/// # Errors
/// What is wrong with the file or with the options.
pub(in crate::commands) fn open(path: &Path, run: &RunArgs, ui: &Ui) -> Result<Model, Failure> {
    cpu_level()?;
    let options = options(run);
    let failed = |error| input_kind::explained(path, Wanted::Gguf, at(path, error));
    let model = Model::open(path, &options).map_err(failed)?;
    if let Some(pre) = model.tokenizer().unknown_pre() {
        ui.warning(&format!("{}: `tokenizer.ggml.pre`: `{pre}` is unknown to llama.cpp", path.display()));
    }
    Ok(model)
}

/// Warns where a model is going to see more tokens at once than it was trained on.
pub(in crate::commands) fn warn_of_length(model: &Model, n_tokens: usize, ui: &Ui) {
    let limit = model.context_length();
    if limit > 0 && n_tokens > limit {
        let key = format!("{}.context_length", model.architecture());
        ui.warning(&format!("{n_tokens} tokens exceed `{key}` ({limit})"));
    }
}

/// The failure of a model's file.
pub(in crate::commands) fn at(path: &Path, error: Error) -> Failure {
    let hint = hints::eval(&error);
    match error {
        // This one carries its path.
        Error::Gguf(error @ gguf::Error::Io { .. }) => Failure::new(error),
        Error::Gguf(error) => {
            let hint = hints::gguf(&error);
            Failure::at(path, &error).hint(hint)
        }
        error => Failure::at(path, error).hint(hint),
    }
}

/// The failure of an open model, with the path of its first file.
pub(in crate::commands) fn of_open(model: &Model, error: Error) -> Failure {
    match model.file().shards().first() {
        Some((path, _)) => at(path, error),
        None => Failure::new(error),
    }
}

/// The failure of a base or of one of the others, with the file that is at fault.
pub(in crate::commands) fn of_model(base: &Path, others: &[impl AsRef<Path>], error: Error) -> Failure {
    match error {
        Error::OfOther { index, error } => at(others.get(index).map_or(base, AsRef::as_ref), *error),
        error => at(base, error),
    }
}

/// The tokens of a text file, with the special tokens that the model's keys want around a text.
///
/// # Errors
/// What the system or the tokenizer says.
pub(in crate::commands) fn tokens(model: &Model, text: &Path, ui: &Ui) -> Result<Vec<u32>, Failure> {
    let bytes = text_file::of_model(text, ui)?;
    model.tokenizer().encode(bytes, true, false).map_err(|error| Failure::at(text, error))
}

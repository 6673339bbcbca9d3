//! What the verbs of `gguf-eval` share: opening a model, reading and tokenizing a text.

use std::{
    fs,
    path::{Path, PathBuf},
};

use clap::{
    Args,
    builder::{PossibleValuesParser, TypedValueParser},
};
use eval::{Activations, Error, Model, Options};

use crate::{
    commands::shared::{
        cpu_level::cpu_level,
        input_kind::{self, Wanted},
    },
    failure::Failure,
};

/// The options of every verb that runs a model.
#[derive(Debug, Args)]
pub(in crate::commands) struct RunArgs {
    /// Threads to work with; as many as the machine has by default.
    #[arg(short = 'j', long, value_name = "N")]
    pub threads: Option<usize>,
    /// What goes into products with weights: f32 as it is (the default), or rounded as llama.cpp's CPU
    /// kernels round it, for figures to compare with llama.cpp's.
    #[arg(long, value_name = "KIND", value_parser = activations())]
    pub activations: Option<Activations>,
    /// Nothing on stderr but errors.
    #[arg(short, long)]
    pub quiet: bool,
}

fn activations() -> impl TypedValueParser<Value = Activations> {
    PossibleValuesParser::new(Activations::ALL.iter().map(|kind| kind.name()))
        .map(|name| Activations::ALL.iter().copied().find(|kind| kind.name() == name).unwrap_or_default())
}

/// Opens a model.
///
/// # Errors
/// What is wrong with the file or with the options.
pub(in crate::commands) fn open(path: &Path, run: &RunArgs) -> Result<Model, Failure> {
    cpu_level()?;
    let options = Options { threads: run.threads, activations: run.activations.unwrap_or_default() };
    Model::open(path, &options).map_err(|error| at(path, error).hint(input_kind::advice(path, Wanted::Gguf)))
}

/// The failure of a model's file.
pub(in crate::commands) fn at(path: &Path, error: Error) -> Failure {
    let hint = error.hint();
    match error {
        // This one carries its path.
        Error::Gguf(error @ gguf::Error::Io { .. }) => Failure::new(error),
        Error::Gguf(error) => {
            let hint = error.hint();
            Failure::at(path, &error).hint(hint)
        }
        error => Failure::at(path, error).hint(hint),
    }
}

/// The tokens of a text file, with the special tokens that the model's keys want around a text.
///
/// # Errors
/// What the system or the tokenizer says.
pub(in crate::commands) fn tokens(model: &Model, text: &PathBuf) -> Result<Vec<u32>, Failure> {
    let bytes = fs::read(text).map_err(|error| Failure::cannot_open(text, error))?;
    model.tokenizer().encode(bytes, true, false).map_err(|error| Failure::at(text, error))
}

//! `gguf-inspect fit FILE|DIR`: how much memory files take when they run, and which of them fit.

use std::{num::NonZeroU64, path::PathBuf};

use clap::{Args, ValueHint};
use gguf_toolkit::{
    DType,
    arguments::kv_type,
    fit::{FitOptions, fit},
    sizes::parse_size,
};

use crate::{commands::Command, failure::Failure, ui::Ui};

/// The row of [`super::COMMANDS`].
pub const COMMAND: Command = Command {
    verb: Some("fit"),
    about: "Estimate memory use and find the files that fit",
    define: FitArgs::augment_args,
    run: |matches, ui| run(Command::args(matches)?, ui),
    ..Command::of("gguf-inspect")
};

#[derive(Debug, Args)]
struct FitArgs {
    /// GGUF file, any shard of a split model, or a folder of files.
    #[arg(value_name = "FILE|DIR", value_hint = ValueHint::AnyPath)]
    path: PathBuf,
    /// Set the memory size, for example 16GB or 24GiB.
    ///
    /// Prints the longest context that fits for each file and, for a folder, the largest file that fits. The exit code is 1 if
    /// nothing fits.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    memory: Option<u64>,
    /// Set the context length, in tokens.
    ///
    /// A comma-separated list reports several lengths. Default: the length that the model was trained for.
    #[arg(short, long, value_name = "N", value_delimiter = ',')]
    context: Vec<NonZeroU64>,
    /// Run N sequences in parallel.
    #[arg(long, value_name = "N", default_value = "1")]
    parallel: NonZeroU64,
    /// Set the type of the KV cache.
    #[arg(long, value_name = "TYPE", default_value = "f16", value_parser = kv_type(), hide_possible_values = true)]
    kv_type: DType,
    /// Process N tokens at a time.
    ///
    /// This is llama.cpp's `--ubatch-size`.
    #[arg(long, value_name = "N", default_value = "512")]
    batch: NonZeroU64,
    /// Also load this projector, draft model or adapter (repeatable).
    ///
    /// A draft model has its own KV cache and buffers for the same context. Of other files the weights are counted.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    with: Vec<PathBuf>,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

fn run(args: FitArgs, ui: &Ui) -> Result<(), Failure> {
    let options = FitOptions {
        path: args.path,
        memory: args.memory,
        context: args.context.iter().map(|context| context.get()).collect(),
        parallel: args.parallel.get(),
        kv_type: args.kv_type,
        batch: args.batch.get(),
        with: args.with,
    };
    let found = fit(&options, ui)?;
    if args.json {
        ui.json(&found)?
    } else {
        ui.data(&found.text())?
    }
    found.verdict()
}

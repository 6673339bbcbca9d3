//! `gguf-eval check-against FILE RECORD`: the part of a converted model that differs from the original.

use std::{num::NonZeroUsize, path::PathBuf};

use clap::{Args, ValueHint};
use gguf_toolkit::check_against::CheckAgainst;

use super::{Command, shared::threads::parse_threads};
use crate::{failure::Failure, ui::Ui};

/// The row of [`super::COMMANDS`].
pub const COMMAND: Command = Command {
    verb: Some("check-against"),
    about: "Find out why a converted model differs from the original",
    define: CheckAgainstArgs::augment_args,
    run: |matches, ui| run(Command::args(matches)?, ui),
    ..Command::of("gguf-eval")
};

#[derive(Debug, Args)]
struct CheckAgainstArgs {
    /// GGUF file, or any shard of a split model.
    #[arg(value_hint = ValueHint::FilePath)]
    file: PathBuf,
    /// Record of the original model.
    ///
    /// The JSON file. Its arrays are in the file of the same name that ends in .f32.
    #[arg(value_hint = ValueHint::FilePath)]
    record: PathBuf,
    /// Compare the tensors with the checkpoint in DIR.
    ///
    /// By default they are compared with the sums in the record.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    weights: Option<PathBuf>,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
    /// Use N threads.
    ///
    /// Default: one per core.
    #[arg(short = 'j', long, value_name = "N", value_parser = parse_threads)]
    threads: Option<NonZeroUsize>,
    /// Print only errors.
    #[arg(short, long)]
    quiet: bool,
}

fn run(args: CheckAgainstArgs, ui: &Ui) -> Result<(), Failure> {
    let CheckAgainstArgs { file, record, weights, json, threads, quiet: _ } = args;
    let report = CheckAgainst { file, record, weights, threads }.run(ui)?;
    if json {
        ui.data(&report.json()?)?
    } else {
        ui.styled_data(&report.text_with(super::verify::styled))?
    }
    report.verdict()
}

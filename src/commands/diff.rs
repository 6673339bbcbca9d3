//! `gguf-inspect diff A B`: differences between two files.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use gguf_toolkit::diff::{DiffOptions, diff};

use crate::{
    commands::{Command, shared::cpu_level::cpu_level},
    failure::Failure,
    ui::Ui,
};

/// The row of [`super::COMMANDS`].
pub const COMMAND: Command = Command {
    verb: Some("diff"),
    about: "Compare the keys, chat templates and tensors of two files",
    define: DiffArgs::augment_args,
    run: |matches, ui| run(Command::args(matches)?, ui),
    ..Command::of("gguf-inspect")
};

#[derive(Debug, Args)]
struct DiffArgs {
    /// GGUF file, or any shard of a split model.
    #[arg(value_hint = ValueHint::FilePath)]
    a: PathBuf,
    /// The file to compare it with.
    #[arg(value_hint = ValueHint::FilePath)]
    b: PathBuf,
    /// Compare only keys, names, shapes and types, without tensor data.
    #[arg(long)]
    headers: bool,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
    /// Print only errors.
    #[arg(short, long)]
    quiet: bool,
}

fn run(args: DiffArgs, ui: &Ui) -> Result<(), Failure> {
    let options = DiffOptions { a: args.a, b: args.b, headers: args.headers, level: cpu_level()? };
    let found = diff(&options, ui)?;
    if args.json {
        ui.json(&found)?
    } else if found.is_empty() {
        ui.status("no differences")
    } else {
        ui.contents(&found.text())?
    }
    found.verdict(&options)
}

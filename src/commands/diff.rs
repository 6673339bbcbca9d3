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
    examples: EXAMPLES,
    define: DiffArgs::augment_args,
    run: |matches, ui| run(Command::args(matches)?, ui),
    ..Command::of("gguf-inspect")
};

const EXAMPLES: &str = "\
Examples:
  gguf-inspect diff old.gguf new.gguf
  gguf-inspect diff a.gguf b.gguf --headers
  gguf-inspect diff model-BF16.gguf model-Q4_K_M.gguf --json | jq .tensors

A line starts with - if only A has the item, + if only B has it, ~ if it differs. The error of a
tensor is sqrt(sum (b - a)^2 / sum a^2). Chat templates and other long strings are compared line by
line. The order of keys and tensors, the division into shards and the byte order are ignored.

Exit codes: 0 no difference, 1 differences found, 2 usage error.";

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
    match args.json {
        true => ui.json(&found)?,
        false => ui.data(&found.text())?,
    }
    if found.is_empty() {
        return Ok(());
    }
    let (a, b) = (options.a.display(), options.b.display());
    let (n_keys, n_tensors) = (found.keys.len(), found.tensors.len());
    Err(Failure::new(format_args!("{a} and {b} differ in {n_keys} keys and {n_tensors} tensors")))
}

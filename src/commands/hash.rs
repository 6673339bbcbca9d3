//! `gguf-inspect hash FILE...`: digests of files and of tensors, as `sha256sum` writes and checks them.

use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use serde_json::json;

use gguf_toolkit::{
    arguments::output_path,
    hash::{self, Checked, HashOptions},
};

use crate::{
    commands::{
        Command,
        shared::outputs::{check_outputs, write_result},
    },
    failure::Failure,
    ui::Ui,
};

/// The row of [`super::COMMANDS`].
pub const COMMAND: Command = Command {
    verb: Some("hash"),
    about: "Compute or verify SHA-256 checksums of files and tensors",
    define: HashArgs::augment_args,
    run: |matches, ui| run(Command::args(matches)?, ui),
    ..Command::of("gguf-inspect")
};

#[derive(Debug, Args)]
struct HashArgs {
    /// GGUF files, or folders with GGUF files.
    ///
    /// With --check they are named in LIST.
    #[arg(value_hint = ValueHint::AnyPath, required_unless_present = "check", conflicts_with = "check")]
    files: Vec<PathBuf>,
    /// Also report on each tensor.
    ///
    /// Adds a line FILE:TENSOR for each tensor and a line FILE:* for all of them. A digest covers the data of the tensor only, in
    /// little-endian order, so metadata and the order of tensors do not matter. FILE:* is the digest of the lines (digest, name,
    /// type, shape) sorted by name.
    #[arg(long, conflicts_with = "check")]
    tensors: bool,
    /// Verify the digests in LIST.
    ///
    /// The exit code is 1 if a file differs or is missing.
    #[arg(long, value_name = "LIST", value_hint = ValueHint::FilePath)]
    check: Option<PathBuf>,
    /// Write the result to FILE.
    ///
    /// Default: stdout.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath, value_parser = output_path(), conflicts_with_all = ["check", "json"])]
    output: Option<PathBuf>,
    /// Overwrite existing outputs.
    #[arg(long, requires = "output")]
    force: bool,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
    /// Print only errors.
    #[arg(short, long)]
    quiet: bool,
}

fn run(args: HashArgs, ui: &Ui) -> Result<(), Failure> {
    match &args.check {
        Some(list) => check(list, args.json, ui),
        None => make(&args, ui),
    }
}

fn make(args: &HashArgs, ui: &Ui) -> Result<(), Failure> {
    if let Some(list) = &args.output {
        check_outputs(&[list], &args.files, args.force)?;
    }
    let options = HashOptions { files: args.files.clone(), tensors: args.tensors };
    let digests = hash::hash(&options, ui)?;
    if args.json {
        return ui.json(&digests);
    }
    let text = digests.text();
    match &args.output {
        None => ui.contents(&text),
        Some(list) => write_result(list, text.as_bytes(), args.force),
    }
}

fn check(list: &Path, json: bool, ui: &Ui) -> Result<(), Failure> {
    let results = hash::check(list, ui)?;
    if json {
        let states = results.iter().map(|checked| (checked.name.clone(), json!(checked.state)));
        ui.json(&states.collect::<serde_json::Map<_, _>>())?;
    } else {
        ui.data(&results.iter().map(Checked::line).collect::<String>())?;
    }
    hash::verdict(list, &results)
}

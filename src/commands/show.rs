//! `gguf-inspect show FILE`: metadata and tensors, as the viewer on the Hugging Face Hub lists
//! them.

use std::path::PathBuf;

use clap::Args;

use gguf_toolkit::show::{ShowOptions, show};

use crate::{commands::Command, failure::Failure, ui::Ui};

/// The row of [`super::COMMANDS`].
pub const COMMAND: Command = Command {
    verb: Some("show"),
    about: "Show the metadata and tensors of a GGUF file",
    define: ShowArgs::augment_args,
    run: |matches, ui| run(Command::args(matches)?, ui),
    ..Command::of("gguf-inspect")
};

#[derive(Debug, Args)]
struct ShowArgs {
    /// GGUF file, or any shard of a split model.
    file: PathBuf,
    /// Print the whole listing.
    ///
    /// Long arrays and strings are not truncated.
    #[arg(long, conflicts_with = "json")]
    full: bool,
    /// Do not print the list of tensors.
    #[arg(long, conflicts_with = "json")]
    no_tensors: bool,
    /// Print the result as JSON.
    ///
    /// Arrays and strings are always complete.
    #[arg(long)]
    json: bool,
}

fn run(args: ShowArgs, ui: &Ui) -> Result<(), Failure> {
    let options = ShowOptions { file: args.file, full: args.full, no_tensors: args.no_tensors };
    let shown = show(&options)?;
    match args.json {
        true => ui.json(&shown),
        false => ui.data(&shown.text()),
    }
}

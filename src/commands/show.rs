//! `gguf-inspect show FILE`: a summary, and lists of metadata and tensors.

use std::path::PathBuf;

use clap::Args;

use gguf_toolkit::show::{ShowOptions, show};

use crate::{commands::Command, failure::Failure, ui::Ui};

/// The row of [`super::COMMANDS`].
pub const COMMAND: Command = Command {
    verb: Some("show"),
    about: "Summarize a GGUF file, list its metadata and tensors",
    define: ShowArgs::augment_args,
    run: |matches, ui| run(Command::args(matches)?, ui),
    ..Command::of("gguf-inspect")
};

#[derive(Debug, Args)]
struct ShowArgs {
    /// GGUF file, any shard of a split model, or an importance matrix.
    ///
    /// An importance matrix, in GGUF or in the older format (.dat), is shown with statistics of its tensors and layers: those
    /// of `llama-imatrix --show-statistics`.
    file: PathBuf,
    /// List metadata and tensors.
    #[arg(long, conflicts_with = "json")]
    list: bool,
    /// Print the whole listing.
    ///
    /// Metadata and tensors, with complete arrays and strings.
    #[arg(long, conflicts_with = "json")]
    full: bool,
    /// Print the result as JSON.
    ///
    /// Arrays and strings are always complete.
    #[arg(long)]
    json: bool,
}

fn run(args: ShowArgs, ui: &Ui) -> Result<(), Failure> {
    let ShowArgs { file, list, full, .. } = args;
    let shown = show(&ShowOptions { file, list, full }, ui)?;
    match args.json {
        true => ui.json(&shown),
        false => ui.data(&shown.text()),
    }
}

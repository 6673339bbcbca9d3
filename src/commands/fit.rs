//! `gguf-inspect fit FILE|DIR|MODEL`: how much memory models take when they run, which of them fit, and in which type.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use gguf_toolkit::fit::{FitOptions, fit};

use super::shared::hub::hub_options;
use crate::{commands::Command, failure::Failure, ui::Ui};

/// The row of [`super::COMMANDS`].
pub const COMMAND: Command = Command {
    verb: Some("fit"),
    about: "Estimate memory use and speed, and find what fits",
    define: FitArgs::augment_args,
    run: |matches, ui| run(Command::args(matches)?, ui),
    ..Command::of("gguf-inspect")
};

#[derive(Debug, Args)]
struct FitArgs {
    /// GGUF file, folder of files, checkpoint folder or hf://OWNER/MODEL[@REVISION].
    ///
    /// A file is any shard of a split model, or the address of one, of which only the header is read. The files that a checkpoint
    /// would become are listed by type. Models on the Hugging Face Hub are read as in `gguf-convert`.
    #[arg(value_name = "FILE|DIR|MODEL", value_hint = ValueHint::AnyPath)]
    path: PathBuf,
    #[command(flatten)]
    options: FitOptions,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

fn run(args: FitArgs, ui: &Ui) -> Result<(), Failure> {
    let found = fit(&FitOptions { path: args.path, ..args.options }, &hub_options(), ui)?;
    if args.json {
        ui.json(&found)?
    } else {
        ui.data(&found.text())?;
        if let Some(next) = found.next_command() {
            ui.status(&next.to_string());
        }
    }
    found.verdict()
}

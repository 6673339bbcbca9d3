//! `gguf-convert architectures`: the table of architectures.

use clap::Args;
use gguf_toolkit::architecture_list;

use super::Command;
use crate::{failure::Failure, ui::Ui};

/// The row of [`super::COMMANDS`].
pub const COMMAND: Command = Command {
    verb: Some("architectures"),
    about: "List the supported architectures",
    define: ArchitecturesArgs::augment_args,
    run: |matches, ui| run(Command::args(matches)?, ui),
    ..Command::of("gguf-convert")
};

#[derive(Debug, Args)]
struct ArchitecturesArgs {
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

fn run(args: ArchitecturesArgs, ui: &Ui) -> Result<(), Failure> {
    let listed = architecture_list::list();
    if args.json { ui.json(&listed) } else { ui.data(&architecture_list::text(&listed)) }
}

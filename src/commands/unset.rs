//! `gguf-inspect unset FILE KEY...`: removes metadata keys.

use clap::Args;
use gguf_toolkit::edit::EditOptions;

use crate::{
    commands::{Command, shared::edit_file::EditArgs},
    failure::Failure,
    ui::Ui,
};

/// The row of [`super::COMMANDS`].
pub const COMMAND: Command = Command {
    verb: Some("unset"),
    about: "Remove metadata keys from a GGUF file",
    define: UnsetArgs::augment_args,
    run: |matches, ui| run(Command::args(matches)?, ui),
    ..Command::of("gguf-inspect")
};

#[derive(Debug, Args)]
struct UnsetArgs {
    #[command(flatten)]
    edit: EditArgs,
    /// Keys to remove.
    #[arg(value_name = "KEY", required = true)]
    keys: Vec<String>,
}

fn run(args: UnsetArgs, ui: &Ui) -> Result<(), Failure> {
    args.edit.run(EditOptions { unset: args.keys, ..EditOptions::default() }, ui)
}

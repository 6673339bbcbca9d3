//! `gguf-inspect rename FILE OLD=NEW...`: renames metadata keys.

use clap::Args;
use gguf_toolkit::edit::EditOptions;

use crate::{
    commands::{Command, shared::edit_file::EditArgs},
    failure::Failure,
    ui::Ui,
};

/// The row of [`super::COMMANDS`].
pub const COMMAND: Command = Command {
    verb: Some("rename"),
    about: "Rename metadata keys of a GGUF file",
    define: RenameArgs::augment_args,
    run: |matches, ui| run(Command::args(matches)?, ui),
    ..Command::of("gguf-inspect")
};

#[derive(Debug, Args)]
struct RenameArgs {
    #[command(flatten)]
    edit: EditArgs,
    /// Old and new names.
    #[arg(value_name = "OLD=NEW", required = true)]
    names: Vec<String>,
}

fn run(args: RenameArgs, ui: &Ui) -> Result<(), Failure> {
    let rename = args.names.iter().map(|names| names.parse()).collect::<Result<_, _>>()?;
    args.edit.run(EditOptions { rename, ..EditOptions::default() }, ui)
}

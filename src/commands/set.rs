//! `gguf-inspect set FILE KEY=TYPE:VALUE...`: sets metadata.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use gguf_toolkit::edit::EditOptions;

use crate::{
    commands::{Command, shared::edit_file::EditArgs},
    failure::Failure,
    ui::Ui,
};

/// The row of [`super::COMMANDS`].
pub const COMMAND: Command = Command {
    verb: Some("set"),
    about: "Set metadata keys of a GGUF file",
    define: SetArgs::augment_args,
    run: |matches, ui| run(Command::args(matches)?, ui),
    ..Command::of("gguf-inspect")
};

#[derive(Debug, Args)]
struct SetArgs {
    #[command(flatten)]
    edit: EditArgs,
    /// Keys and their new values.
    ///
    /// The value of a key such as tokenizer.ggml.eos_token_id may be the text of a token.
    #[arg(value_name = "KEY=TYPE:VALUE")]
    values: Vec<String>,
    /// Set all keys of a JSON file.
    ///
    /// The format is that of `gguf-inspect export-metadata`.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    from: Option<PathBuf>,
    /// Set the chat template to the contents of FILE.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    chat_template: Option<PathBuf>,
}

fn run(args: SetArgs, ui: &Ui) -> Result<(), Failure> {
    let SetArgs { edit, values, from, chat_template } = args;
    if values.is_empty() && from.is_none() && chat_template.is_none() && edit.header_slack.is_none() {
        return Err(Failure::usage(
            "nothing to set: expected KEY=TYPE:VALUE, --from, --chat-template or --header-slack",
        ));
    }
    edit.run(EditOptions { assignments: values, from, chat_template, ..EditOptions::default() }, ui)
}

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
    examples: EXAMPLES,
    define: SetArgs::augment_args,
    run: |matches, ui| run(Command::args(matches)?, ui),
    ..Command::of("gguf-inspect")
};

const EXAMPLES: &str = "\
Examples:
  gguf-inspect set model.gguf general.name='My model'
  gguf-inspect set model.gguf --chat-template template.jinja --header-slack 65536
  gguf-inspect set model.gguf llama.context_length=u32:32768 general.tags='arr[str]:[\"chat\", \"en\"]'
  gguf-inspect set model.gguf tokenizer.chat_template=str:@template.jinja
  gguf-inspect set model.gguf --from metadata.json -o other.gguf

TYPE is u8, i8, u16, i16, u32, i32, u64, i64, f32, f64, bool, str, or arr[TYPE] with a JSON list. It
is optional for existing keys, which keep their type, and for keys that the specification or llama.cpp
defines. @FILE stands for the contents of a file. New keys are added at the end. Problems with the new
values that `gguf-inspect verify` would report are printed as warnings.

The file is changed in place if the length of the header stays the same. Otherwise a new file is
written, which then replaces the old one. Tensor data is never changed.";

#[derive(Debug, Args)]
struct SetArgs {
    #[command(flatten)]
    edit: EditArgs,
    /// Keys and their new values.
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

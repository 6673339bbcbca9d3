//! `gguf-inspect unset FILE KEY...`: takes metadata out.

use clap::Args;

use crate::{
    commands::{
        Command,
        shared::edit_file::{EditArgs, edit},
    },
    failure::Failure,
    ui::Ui,
};

/// The row of [`super::COMMANDS`].
pub const COMMAND: Command = Command {
    verb: Some("unset"),
    about: "Remove metadata keys from a GGUF file",
    examples: EXAMPLES,
    define: UnsetArgs::augment_args,
    run: |matches, ui| run(Command::args(matches)?, ui),
    ..Command::of("gguf-inspect")
};

const EXAMPLES: &str = "\
Examples:
  gguf-inspect unset model.gguf general.license.link general.tags
  gguf-inspect unset model.gguf 'quantize.imatrix.*' -o other.gguf

A name that ends with * matches all keys with that prefix.";

#[derive(Debug, Args)]
struct UnsetArgs {
    #[command(flatten)]
    edit: EditArgs,
    /// Keys to remove.
    #[arg(value_name = "KEY", required = true)]
    keys: Vec<String>,
}

fn run(args: UnsetArgs, ui: &Ui) -> Result<(), Failure> {
    edit(&args.edit, ui, |metadata| {
        for name in &args.keys {
            let n_before = metadata.len();
            match name.strip_suffix('*') {
                Some(start) => metadata.retain(|key, _| !key.starts_with(start)),
                None => drop(metadata.remove(name)),
            }
            if metadata.len() == n_before {
                return Err(Failure::at(&args.edit.file, format_args!("unknown key `{name}`")));
            }
        }
        Ok(())
    })
}

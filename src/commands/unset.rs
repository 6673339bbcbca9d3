//! `gguf-inspect unset FILE KEY...`: takes metadata out.

use clap::{ArgMatches, Args, FromArgMatches};

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
    binary: "gguf-inspect",
    verb: Some("unset"),
    define: |command| {
        UnsetArgs::augment_args(command).about("Remove metadata keys from a GGUF file").after_help(EXAMPLES)
    },
    ui: |matches| Ui { quiet: matches.get_flag("quiet"), verbose: false },
    run,
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

fn run(matches: &ArgMatches, ui: &Ui) -> Result<(), Failure> {
    let args = UnsetArgs::from_arg_matches(matches).map_err(Failure::usage)?;
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

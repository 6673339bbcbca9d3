//! `gguf-inspect rename FILE OLD=NEW...`: gives keys other names.

use clap::Args;
use gguf_container::Metadata;

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
    verb: Some("rename"),
    about: "Rename metadata keys of a GGUF file",
    examples: EXAMPLES,
    define: RenameArgs::augment_args,
    run: |matches, ui| run(Command::args(matches)?, ui),
    ..Command::of("gguf-inspect")
};

const EXAMPLES: &str = "\
Examples:
  gguf-inspect rename model.gguf general.name=general.basename
  gguf-inspect rename model.gguf 'qwen2.*=qwen3.*'

Values and the order of keys stay the same. If both names end with *, the prefix of all matching keys
is replaced.";

#[derive(Debug, Args)]
struct RenameArgs {
    #[command(flatten)]
    edit: EditArgs,
    /// Old and new names.
    #[arg(value_name = "OLD=NEW", required = true)]
    names: Vec<String>,
}

fn run(args: RenameArgs, ui: &Ui) -> Result<(), Failure> {
    edit(&args.edit, ui, |metadata| {
        args.names.iter().try_for_each(|text| {
            let Some((old, new)) =
                text.split_once('=').filter(|(old, new)| !old.is_empty() && !new.is_empty())
            else {
                return Err(Failure::usage(format_args!("`{text}`: expected OLD=NEW")));
            };
            rename(metadata, old, new).map_err(|problem| Failure::at(&args.edit.file, problem))
        })
    })
}

fn rename(metadata: &mut Metadata, old: &str, new: &str) -> Result<(), String> {
    let starts = old.strip_suffix('*').zip(new.strip_suffix('*'));
    let renamed = |key: &str| match starts {
        Some((old, new)) => key.strip_prefix(old).map(|rest| format!("{new}{rest}")),
        None => (key == old).then(|| new.to_owned()),
    };
    let (mut made, mut n_renamed) = (Metadata::new(), 0);
    for (key, value) in std::mem::take(metadata) {
        let name = renamed(&key).inspect(|_| n_renamed += 1).unwrap_or(key);
        if made.contains(&name) {
            return Err(format!("duplicate key `{name}`"));
        }
        made.set(name, value);
    }
    *metadata = made;
    match n_renamed {
        0 => Err(format!("unknown key `{old}`")),
        _ => Ok(()),
    }
}

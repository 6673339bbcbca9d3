//! `gguf-inspect export-metadata FILE`: metadata as JSON that `set --from` takes.

use std::path::PathBuf;

use clap::{ArgMatches, Args, FromArgMatches, ValueHint};
use gguf::Metadata;

use crate::{
    commands::{
        Command,
        shared::{
            metadata_json::to_json,
            outputs::{check_outputs, write_result},
            write::output_parser,
        },
        show,
    },
    failure::Failure,
    ui::Ui,
};

/// The row of [`super::COMMANDS`].
pub const COMMAND: Command = Command {
    binary: "gguf-inspect",
    verb: Some("export-metadata"),
    define: |command| {
        ExportArgs::augment_args(command)
            .about("Writes the metadata of a GGUF file as JSON, without loss.")
            .after_help(EXAMPLES)
    },
    ui: |_| Ui::default(),
    run,
};

const EXAMPLES: &str = "\
Examples:
  gguf-inspect export-metadata model.gguf > metadata.json
  gguf-inspect export-metadata model.gguf --only general. --only tokenizer.chat_template -o some.json
  gguf-inspect set other.gguf --from some.json

Each key is an object of its type and its value: {\"general.name\": {\"type\": \"str\", \"value\": \"Llama\"}}.
NaN and infinities are texts, bytes that are no UTF-8 are {\"bytes\": [...]}.";

#[derive(Debug, Args)]
struct ExportArgs {
    /// A GGUF file; of a split model, its first shard.
    #[arg(value_hint = ValueHint::FilePath)]
    file: PathBuf,
    /// Only keys that begin so; several times for several.
    #[arg(long, value_name = "START")]
    only: Vec<String>,
    /// Write to this file instead of stdout.
    #[arg(short, long, value_name = "OUT", value_hint = ValueHint::FilePath, value_parser = output_parser())]
    output: Option<PathBuf>,
    /// Replace OUT if it is there.
    #[arg(short, long, requires = "output")]
    force: bool,
}

fn run(matches: &ArgMatches, ui: &Ui) -> Result<(), Failure> {
    let args = ExportArgs::from_arg_matches(matches).map_err(Failure::usage)?;
    if let Some(output) = &args.output {
        check_outputs(&[output], &[&args.file], args.force)?;
    }
    let file = show::open_foreign(&args.file)?;
    let is_wanted = |key: &str| args.only.is_empty() || args.only.iter().any(|start| key.starts_with(start));
    let wanted: Metadata = file.metadata().iter().filter(|(key, _)| is_wanted(key)).cloned().collect();
    if wanted.is_empty() && !args.only.is_empty() {
        return Err(Failure::at(&args.file, "no key begins so"));
    }
    let text = serde_json::to_string_pretty(&to_json(&wanted)).map_err(Failure::new)? + "\n";
    match &args.output {
        None => ui.data(&text),
        Some(output) => write_result(output, text.as_bytes(), args.force),
    }
}

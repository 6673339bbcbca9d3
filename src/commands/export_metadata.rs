//! `gguf-inspect export-metadata FILE`: metadata as JSON that `set --from` takes.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use gguf_toolkit::{
    arguments::output_path,
    export_metadata::{ExportMetadataOptions, export_metadata},
    text::pretty_json,
};

use crate::{
    commands::{
        Command,
        shared::outputs::{check_outputs, write_result},
    },
    failure::Failure,
    ui::Ui,
};

/// The row of [`super::COMMANDS`].
pub const COMMAND: Command = Command {
    verb: Some("export-metadata"),
    about: "Export the metadata of a GGUF file as JSON",
    define: ExportArgs::augment_args,
    run: |matches, ui| run(Command::args(matches)?, ui),
    ..Command::of("gguf-inspect")
};

#[derive(Debug, Args)]
struct ExportArgs {
    /// GGUF file, or the first shard of a split model.
    #[arg(value_hint = ValueHint::FilePath)]
    file: PathBuf,
    /// Export only keys that start with START (repeatable).
    #[arg(long, value_name = "START")]
    prefix: Vec<String>,
    /// Write the result to FILE.
    ///
    /// Default: stdout.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath, value_parser = output_path())]
    output: Option<PathBuf>,
    /// Overwrite existing outputs.
    #[arg(long, requires = "output")]
    force: bool,
}

fn run(args: ExportArgs, ui: &Ui) -> Result<(), Failure> {
    if let Some(output) = &args.output {
        check_outputs(&[output], &[&args.file], args.force)?;
    }
    let options = ExportMetadataOptions { file: args.file, prefix: args.prefix };
    let text = pretty_json(&export_metadata(&options, ui)?)?;
    match &args.output {
        None => ui.data(&text),
        Some(output) => write_result(output, text.as_bytes(), args.force),
    }
}

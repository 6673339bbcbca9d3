//! `gguf-inspect merge SHARD... OUT`: one file of all shards.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use gguf_toolkit::{
    arguments::output_path,
    merge::{MergeOptions, merge},
};

use crate::{
    commands::{Command, shared::copy_args::CopyArgs},
    failure::Failure,
    ui::Ui,
};

/// The row of [`super::COMMANDS`].
pub const COMMAND: Command = Command {
    verb: Some("merge"),
    about: "Merge the shards of a model into one GGUF file",
    define: MergeArgs::augment_args,
    run: |matches, ui| run(Command::args(matches)?, ui),
    ..Command::of("gguf-inspect")
};

#[derive(Debug, Args)]
struct MergeArgs {
    /// One shard of the model, or all of them.
    #[arg(required = true, value_name = "SHARD", value_hint = ValueHint::FilePath)]
    shards: Vec<PathBuf>,
    /// File to write.
    #[arg(value_hint = ValueHint::FilePath, value_parser = output_path())]
    out: PathBuf,
    #[command(flatten)]
    copy: CopyArgs,
}

fn run(args: MergeArgs, ui: &Ui) -> Result<(), Failure> {
    let CopyArgs { force, dry_run, .. } = args.copy;
    let options = MergeOptions { shards: args.shards, output: args.out, force, dry_run };
    args.copy.print(&merge(&options, ui)?, ui)
}

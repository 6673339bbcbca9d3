//! `gguf-inspect merge SHARD... OUT`: one file of all shards.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use gguf_container::CopyPlan;
use gguf_toolkit::copy_files::open_model;

use crate::{
    commands::{
        Command,
        shared::{
            copy_args::{CopyArgs, copy},
            tensor_args::output_parser,
        },
    },
    failure::Failure,
    ui::Ui,
};

/// The row of [`super::COMMANDS`].
pub const COMMAND: Command = Command {
    verb: Some("merge"),
    about: "Merge the shards of a model into one GGUF file",
    examples: EXAMPLES,
    define: MergeArgs::augment_args,
    run: |matches, ui| run(Command::args(matches)?, ui),
    ..Command::of("gguf-inspect")
};

const EXAMPLES: &str = "\
Examples:
  gguf-inspect merge model-00001-of-00003.gguf model.gguf
  gguf-inspect merge model-*-of-00003.gguf model.gguf

The keys that describe shards are removed, so that merging a split file restores it byte for byte.
llama-gguf-split keeps them with a count of 0.";

#[derive(Debug, Args)]
struct MergeArgs {
    /// One shard of the model, or all of them.
    #[arg(required = true, value_name = "SHARD", value_hint = ValueHint::FilePath)]
    shards: Vec<PathBuf>,
    /// File to write.
    #[arg(value_hint = ValueHint::FilePath, value_parser = output_parser())]
    out: PathBuf,
    #[command(flatten)]
    copy: CopyArgs,
}

fn run(args: MergeArgs, ui: &Ui) -> Result<(), Failure> {
    let Some((first, more)) = args.shards.split_first() else {
        return Err(Failure::usage("missing SHARD"));
    };
    let model = open_model(first)?;
    let shards: Vec<PathBuf> =
        model.shards().iter().filter_map(|(path, _)| path.canonicalize().ok()).collect();
    for path in more {
        let canonical = path.canonicalize().map_err(|error| Failure::cannot_open(path, error))?;
        if !shards.contains(&canonical) {
            let problem = format!("not a shard of the same model as {}", first.display());
            return Err(
                Failure::at(path, problem).hint(["pass the shards of one model, then the output file"])
            );
        }
    }
    let plans = CopyPlan::merge(&model).map(|plan| vec![plan]);
    copy(first, &model, plans, |_| vec![args.out.clone()], &args.copy, ui)
}

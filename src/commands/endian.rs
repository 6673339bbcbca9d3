//! `gguf-inspect endian FILE OUT --to big|little`: the other byte order.

use std::path::PathBuf;

use clap::{ArgMatches, Args, FromArgMatches, ValueEnum, ValueHint};
use gguf::{CopyPlan, Endian, shard_file_name};

use crate::{
    commands::{
        Command,
        shared::{
            copy_files::{CopyArgs, copy, open_model},
            write::output_parser,
        },
    },
    failure::Failure,
    ui::Ui,
};

/// The row of [`super::COMMANDS`].
pub const COMMAND: Command = Command {
    binary: "gguf-inspect",
    verb: Some("endian"),
    define: |command| {
        EndianArgs::augment_args(command)
            .about("Writes a GGUF file in the other byte order.")
            .after_help(EXAMPLES)
    },
    ui: |matches| Ui { quiet: matches.get_flag("quiet"), verbose: false },
    run,
};

const EXAMPLES: &str = "\
Examples:
  gguf-inspect endian model.gguf model-s390x.gguf --to big
  gguf-inspect endian model-00001-of-00003.gguf big/model.gguf --to big

Numbers of the header and of all tensors turn, whatever their type. Shards stay shards: OUT then gets their numbers.";

#[derive(Debug, Args)]
struct EndianArgs {
    /// A GGUF file; of a split model, one of its shards: all are written.
    #[arg(value_hint = ValueHint::FilePath)]
    file: PathBuf,
    /// The file to write.
    #[arg(value_hint = ValueHint::FilePath, value_parser = output_parser())]
    out: PathBuf,
    /// The byte order of OUT.
    #[arg(long, value_name = "ORDER")]
    to: Order,
    #[command(flatten)]
    copy: CopyArgs,
}

/// A byte order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Order {
    /// Of most machines.
    Little,
    /// Of s390x and the like.
    Big,
}

fn run(matches: &ArgMatches, ui: &Ui) -> Result<(), Failure> {
    let args = EndianArgs::from_arg_matches(matches).map_err(Failure::usage)?;
    let model = open_model(&args.file)?;
    let endian = match args.to {
        Order::Little => Endian::Little,
        Order::Big => Endian::Big,
    };
    let names = |count: usize| match count {
        1 => vec![args.out.clone()],
        count => {
            let stem = args.out.file_stem().unwrap_or_default().to_string_lossy();
            let name = |no| args.out.with_file_name(shard_file_name(&stem, no, count as u32));
            (1..=count as u32).map(name).collect()
        }
    };
    copy(&args.file, &model, CopyPlan::in_order(&model, endian), names, &args.copy, ui)
}

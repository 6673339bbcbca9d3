//! `gguf-inspect endian FILE OUT --to big|little`: the other byte order.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};
use gguf_toolkit::{
    Endian,
    endian::{EndianOptions, change_endian},
};

use crate::{
    commands::{
        Command,
        shared::{copy_args::CopyArgs, tensor_args::output_parser},
    },
    failure::Failure,
    ui::Ui,
};

/// The row of [`super::COMMANDS`].
pub const COMMAND: Command = Command {
    verb: Some("endian"),
    about: "Convert a GGUF file to the other byte order",
    examples: EXAMPLES,
    define: EndianArgs::augment_args,
    run: |matches, ui| run(Command::args(matches)?, ui),
    ..Command::of("gguf-inspect")
};

const EXAMPLES: &str = "\
Examples:
  gguf-inspect endian model.gguf model-s390x.gguf --order big
  gguf-inspect endian model-00001-of-00003.gguf big/model.gguf --order big";

#[derive(Debug, Args)]
struct EndianArgs {
    /// GGUF file, or any shard of a split model.
    ///
    /// All shards are written, and OUT gets their numbers.
    #[arg(value_hint = ValueHint::FilePath)]
    file: PathBuf,
    /// File to write.
    #[arg(value_hint = ValueHint::FilePath, value_parser = output_parser())]
    out: PathBuf,
    /// Set the byte order of the output.
    #[arg(long, alias = "to", value_name = "ORDER")]
    order: Order,
    #[command(flatten)]
    copy: CopyArgs,
}

/// A byte order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Order {
    /// Byte order of most machines.
    Little,
    /// Byte order of s390x and similar machines.
    Big,
}

fn run(args: EndianArgs, ui: &Ui) -> Result<(), Failure> {
    let order = match args.order {
        Order::Little => Endian::Little,
        Order::Big => Endian::Big,
    };
    let CopyArgs { force, dry_run, .. } = args.copy;
    let options = EndianOptions { file: args.file, output: args.out, order, force, dry_run };
    args.copy.print(&change_endian(&options, ui)?, ui)
}

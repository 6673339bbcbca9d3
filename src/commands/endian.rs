//! `gguf-inspect endian FILE OUT --order big|little`: converts a file to the other byte order.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use gguf_toolkit::{
    Endian,
    arguments::{choice, output_path},
    endian::{EndianOptions, change_endian},
};

use crate::{
    commands::{Command, shared::copy_args::CopyArgs},
    failure::Failure,
    ui::Ui,
};

/// The row of [`super::COMMANDS`].
pub const COMMAND: Command = Command {
    verb: Some("endian"),
    about: "Convert a GGUF file to the other byte order",
    define: EndianArgs::augment_args,
    run: |matches, ui| run(Command::args(matches)?, ui),
    ..Command::of("gguf-inspect")
};

#[derive(Debug, Args)]
struct EndianArgs {
    /// GGUF file, or any shard of a split model.
    ///
    /// All shards are written, and OUT gets their numbers.
    #[arg(value_hint = ValueHint::FilePath)]
    file: PathBuf,
    /// File to write.
    #[arg(value_hint = ValueHint::FilePath, value_parser = output_path())]
    out: PathBuf,
    /// Set the byte order of the output.
    #[arg(long, value_name = "ORDER", value_parser = choice(ORDERS))]
    order: Endian,
    #[command(flatten)]
    copy: CopyArgs,
}

/// Byte orders, with their help.
const ORDERS: [(&str, &str, Endian); 2] = [
    ("little", "Byte order of most machines", Endian::Little),
    ("big", "Byte order of s390x and similar machines", Endian::Big),
];

fn run(args: EndianArgs, ui: &Ui) -> Result<(), Failure> {
    let CopyArgs { force, dry_run, .. } = args.copy;
    let options = EndianOptions { file: args.file, output: args.out, order: args.order, force, dry_run };
    args.copy.print(&change_endian(&options, ui)?, ui)
}

//! `gguf-inspect split FILE PREFIX`: splits a file into shards.

use std::{ffi::OsString, path::PathBuf};

use clap::{Args, ValueHint};
use gguf_toolkit::{
    sizes::parse_size,
    split::{SplitOptions, split},
};

use crate::{
    commands::{Command, shared::copy_args::CopyArgs},
    failure::Failure,
    ui::Ui,
};

/// The row of [`super::COMMANDS`].
pub const COMMAND: Command = Command {
    verb: Some("split"),
    about: "Split a GGUF file into shards",
    define: SplitArgs::augment_args,
    run: |matches, ui| run(Command::args(matches)?, ui),
    ..Command::of("gguf-inspect")
};

#[derive(Debug, Args)]
struct SplitArgs {
    /// GGUF file, or any shard of a split model.
    #[arg(value_hint = ValueHint::FilePath)]
    file: PathBuf,
    /// Path of the shards without `-00001-of-00003.gguf`.
    #[arg(value_name = "PREFIX", value_hint = ValueHint::AnyPath)]
    prefix: OsString,
    /// Limit each shard to SIZE of tensor data.
    ///
    /// SIZE is in bytes or has a unit: K, M, G or KB, MB, GB (powers of 1000), or KiB, MiB, GiB. A shard holds at
    /// least one tensor.
    #[arg(long, value_name = "SIZE", value_parser = parse_size, required_unless_present = "split_max_tensors")]
    split_max_size: Option<u64>,
    /// Limit each shard to N tensors.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    split_max_tensors: Option<u64>,
    /// Write a first shard that contains only metadata.
    #[arg(long)]
    no_tensor_first_split: bool,
    #[command(flatten)]
    copy: CopyArgs,
}

fn run(args: SplitArgs, ui: &Ui) -> Result<(), Failure> {
    let options = SplitOptions {
        file: args.file,
        prefix: args.prefix.into(),
        max_bytes: args.split_max_size,
        max_tensors: args.split_max_tensors,
        no_tensor_first: args.no_tensor_first_split,
        force: args.copy.force,
        dry_run: args.copy.dry_run,
    };
    args.copy.print(&split(&options, ui)?, ui)
}

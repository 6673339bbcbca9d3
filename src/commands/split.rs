//! `gguf-inspect split FILE PREFIX`: splits a file into shards.

use std::{ffi::OsString, path::PathBuf};

use clap::{Arg, Args, ValueHint};
use gguf_toolkit::split::{ShardOptions, SplitOptions, split};

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
#[command(mut_args(limited))]
struct SplitArgs {
    /// GGUF file, or any shard of a split model.
    #[arg(value_hint = ValueHint::FilePath)]
    file: PathBuf,
    /// Path of the shards without `-00001-of-00003.gguf`.
    #[arg(value_name = "PREFIX", value_hint = ValueHint::AnyPath)]
    prefix: OsString,
    #[command(flatten)]
    shards: ShardOptions,
    /// Write a first shard that contains only metadata.
    #[arg(long)]
    no_tensor_first_split: bool,
    #[command(flatten)]
    copy: CopyArgs,
}

/// The limits of shards as main options, of which one is required.
fn limited(arg: Arg) -> Arg {
    let arg = arg.hide_short_help(false).help_heading(None::<&str>);
    match arg.get_long() {
        Some("split-max-size") => {
            let long = "Limit each shard to SIZE of tensor data.\n\nSIZE is in bytes or has a unit: K, M, G or KB, MB, GB (powers of \
                        1000), or KiB, MiB, GiB. A shard holds at least one tensor.";
            arg.long_help(long).required_unless_present("ShardOptions")
        }
        _ => arg,
    }
}

fn run(args: SplitArgs, ui: &Ui) -> Result<(), Failure> {
    let options = SplitOptions {
        file: args.file,
        prefix: args.prefix.into(),
        shards: args.shards,
        no_tensor_first: args.no_tensor_first_split,
        force: args.copy.force,
        dry_run: args.copy.dry_run,
    };
    args.copy.print(&split(&options, ui)?, ui)
}

//! `gguf-inspect split FILE PREFIX`: a file in several.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use clap::{Args, ValueHint};
use gguf_container::{CopyPlan, SplitLimits, shard_file_name};
use gguf_toolkit::{copy_files::open_model, sizes::parse_size};

use crate::{
    commands::{
        Command,
        shared::copy_args::{CopyArgs, copy},
    },
    failure::Failure,
    ui::Ui,
};

/// The row of [`super::COMMANDS`].
pub const COMMAND: Command = Command {
    verb: Some("split"),
    about: "Split a GGUF file into shards",
    examples: EXAMPLES,
    define: SplitArgs::augment_args,
    run: |matches, ui| run(Command::args(matches)?, ui),
    ..Command::of("gguf-inspect")
};

const EXAMPLES: &str = "\
Examples:
  gguf-inspect split model.gguf model --split-max-size 2G
  gguf-inspect split model.gguf shards/model --split-max-tensors 128
  gguf-inspect split model.gguf model --split-max-size 500M --dry-run

The files PREFIX-00001-of-00003.gguf and so on are byte-identical to those of llama-gguf-split. The
first shard gets its final name last.";

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
    #[arg(long, alias = "max-size", value_name = "SIZE", value_parser = parse_size, required_unless_present = "split_max_tensors")]
    split_max_size: Option<u64>,
    /// Limit each shard to N tensors.
    #[arg(long, alias = "max-tensors", value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    split_max_tensors: Option<u64>,
    /// Write a first shard that contains only metadata.
    #[arg(long)]
    no_tensor_first_split: bool,
    #[command(flatten)]
    copy: CopyArgs,
}

fn run(args: SplitArgs, ui: &Ui) -> Result<(), Failure> {
    let ends_in_slash = args.prefix.as_encoded_bytes().ends_with(b"/");
    // Readers find the other shards by the text of the name; the folder may have any name.
    let name = Path::new(&args.prefix).file_name().and_then(|name| name.to_str());
    if name.is_none() || ends_in_slash {
        return Err(Failure::usage(format_args!(
            "`{}`: expected a file name prefix",
            args.prefix.to_string_lossy()
        )));
    }
    let model = open_model(&args.file)?;
    let limits = SplitLimits {
        max_bytes: args.split_max_size,
        max_tensors: args.split_max_tensors,
        no_tensor_first: args.no_tensor_first_split,
    };
    let names = |count: usize| {
        let count = count as u32;
        let name = |no| {
            let mut name = args.prefix.clone();
            name.push(shard_file_name("", no, count));
            PathBuf::from(name)
        };
        (1..=count).map(name).collect()
    };
    copy(&args.file, &model, CopyPlan::split(&model, limits), names, &args.copy, ui)
}

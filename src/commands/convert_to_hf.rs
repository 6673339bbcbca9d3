//! `gguf-convert export GGUF OUT`: export of a GGUF file to a Hugging Face folder or a safetensors file.

use std::{num::NonZeroUsize, path::PathBuf};

use clap::{Args, ValueHint};
use gguf_toolkit::{DType, Export, arguments::output_path, sizes::parse_size};

use super::{
    Command,
    convert::args::TypeArgs,
    shared::{cpu_level::cpu_level, output_args::OutputArgs, threads::parse_threads},
};
use crate::{failure::Failure, ui::Ui};

/// The row of [`super::COMMANDS`].
pub const COMMAND: Command = Command {
    verb: Some("export"),
    about: "Export a GGUF file to a checkpoint",
    define: ExportArgs::augment_args,
    run: |matches, ui| run(Command::args(matches)?, ui),
    ..Command::of("gguf-convert")
};

#[derive(Debug, Args)]
#[command(mut_arg("types", |arg| arg.long_help("Set the output type, for example bf16.\n\nOne of bf16 (the default), f16 and f32.")))]
struct ExportArgs {
    /// GGUF file, or any shard of a split model.
    #[arg(value_hint = ValueHint::FilePath)]
    gguf: PathBuf,
    /// Folder to write, or a file .safetensors for an image, video or sound model.
    #[arg(value_hint = ValueHint::AnyPath, value_parser = output_path())]
    out: PathBuf,
    #[command(flatten)]
    types: TypeArgs,
    /// Limit each shard to SIZE of tensor data.
    ///
    /// SIZE is in bytes or has a unit: K, M, G or KB, MB, GB (powers of 1000), or KiB, MiB, GiB.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    split_max_size: Option<u64>,
    /// Convert NaNs and infinities instead of failing.
    #[arg(long)]
    allow_nonfinite: bool,
    /// Use N threads.
    ///
    /// Default: one per core. The output does not depend on the number of threads.
    #[arg(short = 'j', long, value_name = "N", value_parser = parse_threads)]
    threads: Option<NonZeroUsize>,
    #[command(flatten)]
    output: OutputArgs,
}

fn run(args: ExportArgs, ui: &Ui) -> Result<(), Failure> {
    let dtype = match &args.types.recipes()[..] {
        [] if args.types.types.is_empty() => DType::BF16,
        [recipe] if recipe.default.is_float() => recipe.default,
        _ => return Err(Failure::usage("expected one --type for export: f32, f16 or bf16")),
    };
    let export = Export::new(args.gguf, args.out);
    let options = Export {
        dtype,
        split_max_size: args.split_max_size.unwrap_or(export.split_max_size),
        allow_nonfinite: args.allow_nonfinite,
        force: args.output.force,
        threads: args.threads,
        level: Some(cpu_level()?),
        ..export
    };
    let OutputArgs { json, dry_run, .. } = args.output;
    let report = if dry_run { options.plan(ui)? } else { options.run(ui)? };
    match (json, dry_run) {
        (true, _) => ui.json(&report),
        (false, true) => ui.data(&report.text()),
        (false, false) => Ok(()),
    }
}

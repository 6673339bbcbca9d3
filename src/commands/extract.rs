//! `gguf-inspect extract FILE TENSOR --output x.npy|x.safetensors`: tensors for other programs.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use gguf_toolkit::{
    arguments::output_path,
    extract::{ExtractOptions, extract},
};

use crate::{
    commands::{
        Command,
        shared::{copy_args::CopyArgs, cpu_level::cpu_level},
    },
    failure::Failure,
    ui::Ui,
};

/// The row of [`super::COMMANDS`].
pub const COMMAND: Command = Command {
    verb: Some("extract"),
    about: "Write tensors of a GGUF file to an .npy or .safetensors file",
    define: ExtractArgs::augment_args,
    run: |matches, ui| run(Command::args(matches)?, ui),
    ..Command::of("gguf-inspect")
};

#[derive(Debug, Args)]
struct ExtractArgs {
    /// GGUF file, or any shard of a split model.
    #[arg(value_hint = ValueHint::FilePath)]
    file: PathBuf,
    /// Names of tensors.
    #[arg(value_name = "TENSOR", required = true)]
    tensors: Vec<String>,
    /// Write the result to FILE.
    ///
    /// The extension decides the format: .npy (one tensor) or .safetensors.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath, value_parser = output_path())]
    output: PathBuf,
    /// Convert all tensors to f32.
    #[arg(long)]
    f32: bool,
    #[command(flatten)]
    copy: CopyArgs,
}

fn run(args: ExtractArgs, ui: &Ui) -> Result<(), Failure> {
    let options = ExtractOptions {
        file: args.file,
        tensors: args.tensors,
        output: args.output,
        f32: args.f32,
        force: args.copy.force,
        dry_run: args.copy.dry_run,
        level: cpu_level()?,
    };
    let extracted = extract(&options, ui)?;
    if args.copy.json {
        return ui.json_line(&extracted);
    }
    extracted.lines().iter().for_each(|line| ui.status(line));
    Ok(())
}

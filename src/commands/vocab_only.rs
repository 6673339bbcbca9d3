//! `gguf-convert vocab SRC [OUT]`: metadata and tokenizer without weights.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use gguf_toolkit::{
    ConvertVocab, FileType, Recipe,
    arguments::output_path,
    convert::{ArchOptions, NamingOptions, ReadingOptions},
};

use super::{
    Command,
    convert::args::TypeArgs,
    shared::{hub::hub_options, output_args::OutputArgs},
};
use crate::{failure::Failure, ui::Ui};

/// The row of [`super::COMMANDS`].
pub const COMMAND: Command = Command {
    verb: Some("vocab"),
    about: "Write metadata and tokenizer, without weights",
    define: VocabArgs::augment_args,
    run: |matches, ui| run(Command::args(matches)?, ui),
    ..Command::of("gguf-convert")
};

#[derive(Debug, Args)]
#[command(mut_arg("types", |arg| arg.long_help("Set the output type, for example bf16.\n\nOne of f32, f16, bf16 and q8_0. It only sets `general.file_type`. Default: the type of the weights.")))]
struct VocabArgs {
    /// Checkpoint folder or hf://OWNER/MODEL[@REVISION].
    ///
    /// Weights are not needed.
    #[arg(value_hint = ValueHint::AnyPath)]
    src: PathBuf,
    /// Output file or folder.
    #[arg(value_hint = ValueHint::AnyPath, value_parser = output_path())]
    out: Option<PathBuf>,
    #[command(flatten)]
    types: TypeArgs,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    reading: ReadingOptions,
    #[command(flatten)]
    arch: ArchOptions,
    #[command(flatten)]
    naming: NamingOptions,
    /// Write big-endian files, for example for s390x.
    #[arg(long, hide_short_help = true)]
    big_endian: bool,
}

fn run(args: VocabArgs, ui: &Ui) -> Result<(), Failure> {
    let is_of_vocab = |recipe: &'static Recipe| {
        [FileType::F32, FileType::F16, FileType::BF16, FileType::Q8_0].contains(&FileType::Named(recipe))
    };
    let file_type = match args.types.recipes()[..] {
        [] => None,
        [recipe] if is_of_vocab(recipe) => Some(FileType::Named(recipe)),
        _ => return Err(Failure::usage("expected one --type for vocab: f32, f16, bf16 or q8_0")),
    };
    let options = ConvertVocab {
        file_type,
        reading: args.reading,
        arch: args.arch,
        naming: args.naming,
        big_endian: args.big_endian,
        out: args.out,
        force: args.output.force,
        hub: hub_options(),
        ..ConvertVocab::new(args.src)
    };
    let OutputArgs { json, dry_run, .. } = args.output;
    let report = if dry_run { options.plan(ui)? } else { options.run(ui)? };
    match (json, dry_run) {
        (true, _) => ui.json(&report),
        (false, true) => ui.data(&report.text()),
        (false, false) => Ok(()),
    }
}

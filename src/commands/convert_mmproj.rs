//! `gguf-convert mmproj SRC [OUT] --type TYPE`: the vision or audio projector of a checkpoint, without the model.

use std::path::{Path, PathBuf};

use clap::{ArgMatches, Args, ValueHint};
use gguf_conversion::CheckpointInput;
use gguf_toolkit::conversion_run::{self, Parts, failure};

use super::{
    Command,
    convert::{
        args::{EncodingArgs, KeepArgs, SourceArgs, TypeArgs},
        opened,
    },
    shared::{
        call::call_of,
        conversion::print,
        hub,
        output_args::{OutputArgs, ResumeArgs},
        tensor_args::{QuantizeOptions, RecipeArgs, output_parser},
    },
};
use crate::{failure::Failure, ui::Ui};

/// The row of [`super::COMMANDS`].
pub const COMMAND: Command = Command {
    verb: Some("mmproj"),
    about: "Convert only the vision or audio projector of a checkpoint",
    examples: EXAMPLES,
    define: MmprojArgs::augment_args,
    run: |matches, ui| run(matches, &Parts::all(), ui),
    ..Command::of("gguf-convert")
};

const EXAMPLES: &str = "\
Examples:
  gguf-convert mmproj Qwen3-VL-4B --type f16
  gguf-convert mmproj Qwen3-VL-4B mmproj-qwen3-vl.gguf --type q8_0

The output is for the option --mmproj of llama.cpp. `gguf-convert SRC --with-mmproj` writes both the
model and the projector.";

#[derive(Debug, Args)]
struct MmprojArgs {
    /// Checkpoint folder or hf://OWNER/MODEL[@REVISION].
    #[arg(value_hint = ValueHint::AnyPath)]
    src: PathBuf,
    /// Output file or folder; {ftype} stands for the file type.
    #[arg(value_hint = ValueHint::AnyPath, value_parser = output_parser())]
    out: Option<PathBuf>,
    #[command(flatten)]
    types: TypeArgs,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    resume: ResumeArgs,
    #[command(flatten)]
    source: SourceArgs,
    #[command(flatten)]
    keep: KeepArgs,
    /// Set the name of the model.
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    model_name: Option<String>,
    #[command(flatten)]
    encoding: EncodingArgs,
    #[command(flatten)]
    options: QuantizeOptions,
}

/// Converts the projector, or does what a plan needs of that.
///
/// # Errors
/// Invalid options, an input that cannot be read, an output that cannot be written, an interruption.
pub fn run(matches: &ArgMatches, parts: &Parts<'_>, ui: &Ui) -> Result<(), Failure> {
    let args = Command::args::<MmprojArgs>(matches)?;
    let options = args.options.options(&RecipeArgs::default());
    let call = call_of(COMMAND.binary, COMMAND.verb, matches).reads(options.files());
    let failed = |error| failure(&args.src, error);
    // A dry run leaves nothing on the disk.
    let out = (!args.output.dry_run).then(|| args.out.as_deref().unwrap_or(Path::new("")));
    let input = hub::input(&args.src, hub::Wanted { weights: true, keep: args.keep.keep, out }, ui)?;
    let call = input.name_in(call);
    let folder = args.source.apply(&input.folder);
    args.types.check(&args.src, args.out.as_deref(), &folder)?;
    let settings = options.read(args.encoding.settings())?;
    let arch =
        gguf_models::Options { model_name: args.model_name.clone(), ..gguf_models::Options::default() };
    let projector = CheckpointInput::open_projector(folder, &arch).map_err(failed)?;
    let types = args.types.recipes_of(projector.checkpoint())?;
    let nonfinite = settings.nonfinite();
    let run_args = args.output.run(args.out.as_deref(), &args.resume, nonfinite, call, parts)?;
    let outcome = conversion_run::run(opened(projector, &args.src), types, &settings, &run_args, ui)?;
    print(outcome, args.output.format(&args.resume), ui)?;
    input.finish(ui)
}

//! `gguf-convert adapter DIR [OUT] --base MODEL`: a LoRA adapter as PEFT or mlx-lm saves it to an adapter file.

use std::path::PathBuf;

use clap::{ArgMatches, Args, ValueHint};
use gguf_toolkit::{
    ConvertAdapter,
    convert::{Caller, Parts},
};

use super::{
    Command,
    convert::args::{KeepArgs, PlainArgs, TypeArgs},
    shared::{
        call::call_of,
        conversion::print,
        hub::hub_options,
        output_args::{OutputArgs, ResumeArgs},
        tensor_args::output_parser,
    },
};
use crate::{failure::Failure, ui::Ui};

/// The row of [`super::COMMANDS`].
pub const COMMAND: Command = Command {
    verb: Some("adapter"),
    about: "Convert a LoRA adapter to a GGUF adapter file",
    define: AdapterArgs::augment_args,
    run: |matches, ui| run(matches, Parts::Whole, ui),
    ..Command::of("gguf-convert")
};

#[derive(Debug, Args)]
#[command(mut_arg("types", |arg| arg.long_help("Set the output type, for example bf16.\n\nOne of f32 (the default), f16, bf16 and q8_0.")))]
struct AdapterArgs {
    /// Adapter folder or hf://OWNER/ADAPTER[@REVISION].
    ///
    /// The format is that of PEFT (adapter_config.json, adapter_model.safetensors) or mlx-lm (adapters.safetensors).
    #[arg(value_hint = ValueHint::AnyPath)]
    dir: PathBuf,
    /// Output file or folder; {ftype} stands for the file type.
    #[arg(value_hint = ValueHint::AnyPath, value_parser = output_parser())]
    out: Option<PathBuf>,
    /// Use MODEL as the base.
    ///
    /// MODEL is the folder of the base model. The folder needs only config.json; if it also has weights, shapes are
    /// checked. Default: the base model named in the adapter, if that is a local folder.
    #[arg(long, value_name = "MODEL", value_hint = ValueHint::DirPath)]
    base: Option<PathBuf>,
    #[command(flatten)]
    types: TypeArgs,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    resume: ResumeArgs,
    #[command(flatten)]
    keep: KeepArgs,
    /// Set the name of the model.
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    model_name: Option<String>,
    /// Treat the checkpoint as this architecture.
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    arch_as: Option<String>,
    #[command(flatten)]
    plain: PlainArgs,
}

/// Converts the adapter, as a whole or as `parts` states.
///
/// # Errors
/// Invalid options, an input that cannot be read, an output that cannot be written, an interruption.
pub fn run(matches: &ArgMatches, parts: Parts<'_>, ui: &Ui) -> Result<(), Failure> {
    let args = Command::args::<AdapterArgs>(matches)?;
    let call = call_of(&COMMAND, matches);
    let caller = Caller { call, parts, dry_run: args.output.dry_run };
    let format = args.output.format(&args.resume);
    let options = ConvertAdapter {
        base: args.base,
        keep: args.keep.keep,
        model_name: args.model_name,
        arch_as: args.arch_as,
        allow_nonfinite: args.plain.allow_nonfinite,
        big_endian: args.plain.big_endian,
        output: args.output.options(args.out, &args.resume)?,
        hub: hub_options(),
        // `auto` applies to checkpoints only.
        ..ConvertAdapter::new(args.dir, args.types.recipes().into_iter().map(Into::into))
    };
    print(options.run_for(caller, ui)?, format, ui)
}

//! `gguf-convert adapter DIR [OUT] --base MODEL`: a LoRA adapter as PEFT or mlx-lm saves it to an adapter file.

use std::path::PathBuf;

use clap::{ArgMatches, Args, ValueHint};
use gguf_toolkit::{ConvertAdapter, arguments::output_path, convert::PlainOptions};

use super::{
    Command,
    convert::args::{KeepArgs, TypeArgs},
    shared::{
        conversion::Conversion,
        hub::hub_options,
        output_args::{OutputArgs, ResumeArgs},
    },
};
use crate::failure::Failure;

/// The row of [`super::COMMANDS`].
pub const COMMAND: Command = Command {
    verb: Some("adapter"),
    about: "Convert a LoRA adapter to a GGUF adapter file",
    define: AdapterArgs::augment_args,
    conversion: Some(conversion),
    run: |matches, ui| conversion(matches)?.run(ui),
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
    #[arg(value_hint = ValueHint::AnyPath, value_parser = output_path())]
    out: Option<PathBuf>,
    /// Use MODEL as the base.
    ///
    /// MODEL is the folder of the base model, or hf://OWNER/MODEL. Only config.json is needed; if there are weights, shapes
    /// are checked. Default: the base model named in the adapter, if that is a local folder.
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
    plain: PlainOptions,
}

fn conversion(matches: &ArgMatches) -> Result<Conversion, Failure> {
    let args = Command::args::<AdapterArgs>(matches)?;
    let format = args.output.format(&args.resume);
    let options = ConvertAdapter {
        base: args.base,
        keep: args.keep.keep,
        model_name: args.model_name,
        arch_as: args.arch_as,
        plain: args.plain,
        output: args.output.options(args.out, &args.resume)?,
        hub: hub_options(),
        // `auto` applies to checkpoints only.
        ..ConvertAdapter::new(args.dir, args.types.recipes().into_iter().map(Into::into))
    };
    Ok(COMMAND.converts(options, format))
}

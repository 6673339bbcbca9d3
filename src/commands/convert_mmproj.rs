//! `gguf-convert mmproj SRC [OUT] --type TYPE`: the vision or audio projector of a checkpoint, without the model.

use std::path::PathBuf;

use clap::{ArgMatches, Args, ValueHint};
use gguf_toolkit::{
    ConvertProjector,
    arguments::output_path,
    convert::{EncodingOptions, ReadingOptions},
    settings::TensorOptions,
};

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
    verb: Some("mmproj"),
    about: "Convert only the vision or audio projector of a checkpoint",
    define: MmprojArgs::augment_args,
    conversion: Some(conversion),
    run: |matches, ui| conversion(matches)?.run(ui),
    ..Command::of("gguf-convert")
};

#[derive(Debug, Args)]
struct MmprojArgs {
    /// Checkpoint folder or hf://OWNER/MODEL[@REVISION].
    #[arg(value_hint = ValueHint::AnyPath)]
    src: PathBuf,
    /// Output file or folder; {ftype} stands for the file type.
    #[arg(value_hint = ValueHint::AnyPath, value_parser = output_path())]
    out: Option<PathBuf>,
    #[command(flatten)]
    types: TypeArgs,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    resume: ResumeArgs,
    #[command(flatten)]
    reading: ReadingOptions,
    #[command(flatten)]
    keep: KeepArgs,
    /// Set the name of the model.
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    model_name: Option<String>,
    #[command(flatten)]
    encoding: EncodingOptions,
    #[command(flatten)]
    tensors: TensorOptions,
}

fn conversion(matches: &ArgMatches) -> Result<Conversion, Failure> {
    let args = Command::args::<MmprojArgs>(matches)?;
    let format = args.output.format(&args.resume);
    let options = ConvertProjector {
        keep: args.keep.keep,
        model_name: args.model_name,
        reading: args.reading,
        encoding: args.encoding,
        tensors: args.tensors,
        output: args.output.options(args.out, &args.resume)?,
        hub: hub_options(),
        ..ConvertProjector::new(args.src, args.types.types)
    };
    Ok(COMMAND.converts(options, format))
}

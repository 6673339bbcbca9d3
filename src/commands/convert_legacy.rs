//! `gguf-convert legacy FILE [OUT] --type TYPE`: a LLaMA model of llama.cpp from before GGUF to GGUF files.

use std::path::PathBuf;

use clap::{ArgMatches, Args, ValueHint};
use gguf_toolkit::{
    ConvertLegacy,
    arguments::output_path,
    convert::{EncodingOptions, NamingOptions},
    settings::{RecipeOptions, TensorOptions},
};

use super::{
    Command,
    convert::args::TypeArgs,
    shared::{
        conversion::Conversion,
        output_args::{OutputArgs, ResumeArgs},
    },
};
use crate::failure::Failure;

/// The row of [`super::COMMANDS`].
pub const COMMAND: Command = Command {
    verb: Some("legacy"),
    about: "Convert a LLaMA file in a format older than GGUF (ggml, ggmf, ggjt)",
    define: LegacyArgs::augment_args,
    conversion: Some(conversion),
    run: |matches, ui| conversion(matches)?.run(ui),
    ..Command::of("gguf-convert")
};

#[derive(Debug, Args)]
struct LegacyArgs {
    /// ggml, ggmf or ggjt file; the first one if there are several parts.
    #[arg(value_hint = ValueHint::FilePath)]
    file: PathBuf,
    /// Output file or folder; {ftype} stands for the file type.
    #[arg(value_hint = ValueHint::AnyPath, value_parser = output_path())]
    out: Option<PathBuf>,
    #[command(flatten)]
    types: TypeArgs,
    /// Read configuration and tokenizer from DIR.
    ///
    /// DIR holds the config.json and the tokenizer files of the model.
    /// Without it, the few numbers and the plain texts of tokens in the file are used.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    config: Option<PathBuf>,
    /// Set the epsilon of the norms.
    ///
    /// 1e-6 for LLaMA 1, 1e-5 for LLaMA 2. Default: 5e-6, as in the reference.
    #[arg(long, value_name = "NUMBER", value_parser = parse_positive)]
    eps: Option<f32>,
    /// Set the context length, in tokens.
    ///
    /// 2048 for LLaMA 1 (the default), 4096 for LLaMA 2.
    #[arg(short, long, alias = "context-length", value_name = "N", value_parser = clap::value_parser!(u32).range(1..), hide_short_help = true)]
    context: Option<u32>,
    /// Set the base of the rotary frequencies.
    ///
    /// Default: 10000.
    #[arg(long, value_name = "NUMBER", value_parser = parse_positive, hide_short_help = true)]
    rope_base: Option<f32>,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    resume: ResumeArgs,
    #[command(flatten)]
    naming: NamingOptions,
    #[command(flatten)]
    encoding: EncodingOptions,
    #[command(flatten)]
    tensors: TensorOptions,
    #[command(flatten)]
    replay: RecipeOptions,
}

fn parse_positive(text: &str) -> Result<f32, String> {
    let number = text.parse().ok().filter(|number: &f32| number.is_finite() && *number > 0.0);
    number.ok_or_else(|| "expected a number above 0".to_owned())
}

fn conversion(matches: &ArgMatches) -> Result<Conversion, Failure> {
    let args = Command::args::<LegacyArgs>(matches)?;
    let format = args.output.format(&args.resume);
    let options = ConvertLegacy {
        config: args.config,
        eps: args.eps,
        context: args.context,
        rope_base: args.rope_base,
        naming: args.naming,
        encoding: args.encoding,
        tensors: args.tensors,
        replay: args.replay,
        output: args.output.options(args.out, &args.resume)?,
        // `auto` applies to checkpoints only.
        ..ConvertLegacy::new(args.file, args.types.recipes().into_iter().map(Into::into))
    };
    Ok(COMMAND.converts(options, format))
}

//! `gguf-convert legacy FILE [OUT] --type TYPE`: a LLaMA model of llama.cpp from before GGUF to GGUF files.

use std::path::{Path, PathBuf};

use clap::{ArgMatches, Args, ValueHint};
use gguf_conversion::{Error, LegacyInput, recipes::Recipe};
use gguf_models::{Layout, LegacyOptions};
use gguf_toolkit::{
    conversion_run::{self, OpenInput, Parts, failure},
    layout_notes::Notes,
    settings::OtherSettings,
};

use super::{
    Command,
    convert::args::{EncodingArgs, NamingArgs, TypeArgs},
    shared::{
        call::call_of,
        conversion::print,
        output_args::{OutputArgs, ResumeArgs},
        tensor_args::{QuantizeOptions, RecipeArgs, output_parser},
    },
};
use crate::{failure::Failure, ui::Ui};

/// The row of [`super::COMMANDS`].
pub const COMMAND: Command = Command {
    verb: Some("legacy"),
    about: "Convert a LLaMA file in a format older than GGUF (ggml, ggmf, ggjt)",
    examples: EXAMPLES,
    define: LegacyArgs::augment_args,
    run: |matches, ui| run(matches, &Parts::all(), ui),
    ..Command::of("gguf-convert")
};

const EXAMPLES: &str = "\
Examples:
  gguf-convert legacy ggml-model-q4_0.bin llama.gguf --eps 1e-6
  gguf-convert legacy ggml-model-f16.bin llama.gguf --config Llama-2-7b --type q4_k_m

Without --type, the quantized blocks are copied.";

#[derive(Debug, Args)]
struct LegacyArgs {
    /// ggml, ggmf or ggjt file; the first one if there are several parts.
    #[arg(value_hint = ValueHint::FilePath)]
    file: PathBuf,
    /// Output file or folder; {ftype} stands for the file type.
    #[arg(value_hint = ValueHint::AnyPath, value_parser = output_parser())]
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
    naming: NamingArgs,
    #[command(flatten)]
    encoding: EncodingArgs,
    #[command(flatten)]
    options: QuantizeOptions,
    #[command(flatten)]
    recipe: RecipeArgs,
}

fn parse_positive(text: &str) -> Result<f32, String> {
    let number = text.parse().ok().filter(|number: &f32| number.is_finite() && *number > 0.0);
    number.ok_or_else(|| "expected a number above 0".to_owned())
}

/// Converts the file, or does what a plan needs of that.
///
/// # Errors
/// Invalid options, an input that cannot be read, an output that cannot be written, an interruption.
pub fn run(matches: &ArgMatches, parts: &Parts<'_>, ui: &Ui) -> Result<(), Failure> {
    let args = Command::args::<LegacyArgs>(matches)?;
    if args.file.is_dir() {
        return Err(Failure::usage(format_args!(
            "{}: expected a ggml, ggmf or ggjt file, found a folder",
            args.file.display()
        )));
    }
    let failed = |error| failure(&args.file, error);
    let tensor_options = args.options.options(&args.recipe);
    let call = call_of(COMMAND.binary, COMMAND.verb, matches)
        .reads([args.file.as_path()])
        .reads(tensor_options.files())
        .reads(args.config.as_deref());
    let other = OtherSettings { allow_requantize: true, ..args.encoding.settings() };
    let settings = tensor_options.read(other)?;
    let arch = args.naming.options();
    let config = args.config.as_deref().map(|folder| config(folder, &arch)).transpose()?;
    let options = LegacyOptions {
        model_name: arch.model_name.clone(),
        epsilon: args.eps,
        context_length: args.context,
        rope_base: args.rope_base,
    };
    let input = LegacyInput::open(&args.file, &options, config.as_ref()).map_err(failed)?;
    let (model, layout) = (input.model(), input.layout());
    let open = OpenInput {
        path: &args.file,
        files: model.paths.clone(),
        format: model.container.name,
        architecture: layout.architecture.to_owned(),
        notes: Notes::of(&[], &[layout]),
        dropped: layout.dropped.clone(),
        stored_as: input.stored_as(),
        repacked: Vec::new(),
        input,
    };
    let mut types = args.types.recipes();
    if types.is_empty() && !args.recipe.is_given() {
        types.push(Recipe::from_name("COPY").map_err(Failure::new)?);
    }
    let nonfinite = settings.nonfinite();
    let run_args = args.output.run(args.out.as_deref(), &args.resume, nonfinite, call, parts)?;
    print(conversion_run::run(open, types, &settings, &run_args, ui)?, args.output.format(&args.resume), ui)
}

/// Keys and vocabulary of a config folder; weights need not be there.
fn config(folder: &Path, options: &gguf_models::Options) -> Result<Layout, Failure> {
    let failed = |error| failure(folder, error);
    let checkpoint =
        gguf_checkpoint::open_without_weights(folder).map_err(|error| failed(Error::Source(error)))?;
    let options = gguf_models::Options { vocab_only: true, ..options.clone() };
    let layout = gguf_conversion::resolve(&checkpoint, &options).map_err(failed)?;
    match layout.architecture {
        "llama" => Ok(layout),
        other => Err(Failure::at(folder, format_args!("expected a config of `llama`, found `{other}`"))),
    }
}

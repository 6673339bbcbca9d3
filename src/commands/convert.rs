//! `gguf-convert SRC [OUT] --type TYPE`: a checkpoint to GGUF files of one or several types.

pub mod args;

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
};

use clap::{Arg, ArgMatches, Args, ValueHint};
use gguf_toolkit::{Convert, FileType, arguments::output_path, convert::InputType};

use self::args::TypeArgs;
use super::{
    Command,
    command::special,
    convert_legacy, convert_lora,
    shared::{
        conversion::Conversion,
        hub::hub_options,
        output_args::{OutputArgs, ResumeArgs},
        planned_calls::PlannedProgram,
        types_help::types_help,
        values,
    },
};
use crate::failure::Failure;

/// The row of [`super::COMMANDS`].
pub const COMMAND: Command = Command {
    define: |command| {
        ConvertArgs::augment_args(command)
            .arg_required_else_help(true)
            .args_conflicts_with_subcommands(true)
            .subcommand_negates_reqs(true)
            .after_long_help(types_help(COMMAND.binary))
    },
    verb_of_input,
    conversion: Some(conversion),
    run: |matches, ui| conversion(matches)?.run(ui),
    ..Command::of("gguf-convert")
};

/// The program, for its plans.
pub struct Planning;

impl PlannedProgram for Planning {
    const BINARY: &str = COMMAND.binary;
}

#[derive(Debug, Args)]
#[command(mut_args(with_tips))]
struct ConvertArgs {
    /// Checkpoint folder, hf://OWNER/MODEL[@REVISION] or diffusion model.
    ///
    /// A folder holds config.json, safetensors and tokenizer files. A diffusion model is a file (safetensors or torch pickle),
    /// a folder with its weights, or a diffusers pipeline. Models on the Hugging Face Hub are read from the
    /// local cache, or streamed without storing a copy. The environment variables HF_TOKEN, HF_HOME, HF_HUB_CACHE,
    /// HF_ENDPOINT and HF_HUB_OFFLINE apply.
    #[arg(value_hint = ValueHint::AnyPath)]
    src: PathBuf,
    /// Output file or folder; {ftype} stands for the file type.
    ///
    /// A path that ends with / is a folder, which is created. By default the file is named after the model and written to the
    /// current folder.
    #[arg(value_hint = ValueHint::AnyPath, value_parser = output_path())]
    out: Option<PathBuf>,
    /// The types, after the output.
    #[arg(hide = true, value_name = "TYPE", value_delimiter = ',', num_args = 1, value_parser = values::type_name(), conflicts_with = "types")]
    last: Vec<FileType>,
    #[command(flatten)]
    types: TypeArgs,
    /// Write another format than GGUF: whisper.cpp for Whisper models.
    ///
    /// whisper.cpp does not read GGUF. Its files have one type for all matrices: f16 (the default), f32, q4_0, q4_1, q5_0, q5_1,
    /// q8_0, q2_k, q3_k, q4_k, q5_k or q6_k.
    #[arg(long, value_name = "FORMAT", value_parser = values::output_format(), default_value = "gguf", hide_default_value = true, hide_possible_values = true, hide_short_help = true)]
    to: values::OutputFormat,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    resume: ResumeArgs,
    #[command(flatten)]
    convert: Convert,
}

/// Adds the tips about names of types to the option that the toolkit defines.
fn with_tips(arg: Arg) -> Arg {
    if arg.get_id() == "mmproj_type" {
        arg.value_parser(values::mmproj_type()).hide_possible_values(true)
    } else {
        arg
    }
}

fn conversion(matches: &ArgMatches) -> Result<Conversion, Failure> {
    let args = Command::args::<ConvertArgs>(matches)?;
    let format = args.output.format(&args.resume);
    let operation = args.options()?;
    // The second argument may be a type.
    let words = [Some("types"), Some("last"), operation.output.out.is_none().then_some("out")];
    let words = words.into_iter().flatten().filter_map(|id| matches.get_raw(id)).flatten();
    let notes = values::renamed(words.filter_map(OsStr::to_str));
    Ok(Conversion { notes, ..COMMAND.converts(operation, format) })
}

/// The types that a word names; `None` for a path.
fn named_types(word: &Path) -> Option<Vec<FileType>> {
    let is_number = |name: &str| name.parse::<u32>().is_ok();
    let named = |name: &str| if is_number(name) { None } else { name.parse().ok() };
    word.to_str()?.split(',').map(named).collect()
}

/// The command of an input that is not a checkpoint. Its name is optional.
fn verb_of_input(matches: &ArgMatches) -> Option<&'static str> {
    match InputType::of(special::<PathBuf>(matches, "src")?) {
        InputType::Legacy => convert_legacy::COMMAND.verb,
        InputType::Adapter => convert_lora::COMMAND.verb,
        InputType::Diffusion | InputType::Checkpoint => None,
    }
}

impl ConvertArgs {
    fn options(mut self) -> Result<Convert, Failure> {
        self.types.types.append(&mut self.last);
        // `SRC TYPE`, like the arguments of gguf-quantize.
        if self.types.types.is_empty()
            && let Some(types) = self.out.as_deref().and_then(named_types)
        {
            (self.types.types, self.out) = (types, None);
        }
        Ok(Convert {
            source: self.src,
            types: self.types.types,
            to: self.to,
            output: self.output.options(self.out, &self.resume)?,
            hub: hub_options(),
            ..self.convert
        })
    }
}

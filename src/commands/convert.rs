//! `gguf-convert SRC [OUT] --type TYPE`: a checkpoint to GGUF files of one or several types.

pub mod args;

use std::path::PathBuf;

use clap::{ArgMatches, Args, ValueHint};
use gguf_toolkit::{Adapter, Convert, DType, FileType, Recipe, convert::InputType};

use self::args::{ArchArgs, EncodingArgs, KeepArgs, NamingArgs, SourceArgs, TypeArgs};
use super::{
    Command,
    command::special,
    convert_legacy, convert_lora,
    shared::{
        call::call_of,
        conversion::Conversion,
        hub::hub_options,
        output_args::{OutputArgs, ResumeArgs},
        planned_calls::PlannedProgram,
        tensor_args::{BudgetArgs, CalibrationArgs, QuantizeOptions, RecipeArgs, output_parser},
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
    #[arg(value_hint = ValueHint::AnyPath, value_parser = output_parser())]
    out: Option<PathBuf>,
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
    merge: MergeArgs,
    #[command(flatten)]
    projector: ProjectorArgs,
    #[command(flatten)]
    quantized: QuantizedArgs,
    #[command(flatten)]
    source: SourceArgs,
    /// Read configuration and tokenizer from DIR.
    ///
    /// DIR holds the tokenizer files, and config.json if the weights are a single file. By default both are next to the
    /// weights. The tokenizer of a text encoder of a diffusers pipeline is found in the folder next to it: tokenizer_2 for
    /// text_encoder_2.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, help_heading = "Checkpoint", hide_short_help = true)]
    config: Option<PathBuf>,
    #[command(flatten)]
    keep: KeepArgs,
    #[command(flatten)]
    arch: ArchArgs,
    #[command(flatten)]
    naming: NamingArgs,
    #[command(flatten)]
    encoding: EncodingArgs,
    #[command(flatten)]
    options: QuantizeOptions,
    #[command(flatten)]
    recipe: RecipeArgs,
    #[command(flatten)]
    calibration: CalibrationArgs,
    #[command(flatten)]
    budget: BudgetArgs,
}

/// Options about adapters that are merged.
#[derive(Debug, Args)]
struct MergeArgs {
    /// Add a LoRA adapter (repeatable).
    ///
    /// ADAPTER is a folder or hf://OWNER/ADAPTER[@REVISION] in the format of PEFT (adapter_config.json,
    /// adapter_model.safetensors), or a LoRA adapter of mlx-lm (adapters.safetensors). SCALE defaults to 1. Several
    /// adapters are merged in the given order. Weights are rounded once, to their type in the file. Metadata and
    /// tokenizer are taken from the checkpoint; see --lora-tokenizer. For a diffusion model, ADAPTER is a safetensors
    /// file or a folder with one.
    #[arg(long, value_name = "ADAPTER[=SCALE]", value_hint = ValueHint::AnyPath)]
    lora: Vec<Adapter>,
    /// Use the tokenizer of the adapter (requires --lora).
    ///
    /// Also uses the adapter's chat template, and its embeddings if the vocabulary was resized. The result is the same
    /// as calling `resize_token_embeddings`, `merge_and_unload` and `tokenizer.save_pretrained` in Python. The last
    /// adapter with a tokenizer wins.
    #[arg(long, requires = "lora", hide_short_help = true)]
    lora_tokenizer: bool,
}

/// Options about projectors.
#[derive(Debug, Args)]
struct ProjectorArgs {
    /// Also write the vision or audio projector.
    ///
    /// The file is named like the model file, with the prefix `mmproj-` and its own file type.
    #[arg(long, conflicts_with = "RecipeArgs", hide_short_help = true)]
    with_mmproj: bool,
    /// Set the file type of the projector (requires --with-mmproj).
    ///
    /// Default: the first --type if it is a float type or q8_0, otherwise f16.
    #[arg(long, value_name = "TYPE", requires = "with_mmproj", value_parser = values::file_type(), hide_possible_values = true, hide_short_help = true)]
    mmproj_type: Option<&'static Recipe>,
}

/// Options about checkpoints that are quantized.
#[derive(Debug, Args)]
struct QuantizedArgs {
    /// Set the type of FP8 matrices; only q8_0 is supported.
    ///
    /// Requires --type f32, f16 or bf16. q8_0 is about the same size as FP8 and is faster than the float types.
    #[arg(long, value_name = "DTYPE", value_parser = values::fp8_as(), hide_possible_values = true, conflicts_with = "recipe", hide_short_help = true)]
    fp8_as: Option<DType>,
    /// Keep quantized weights bit for bit if a ggml type can hold them.
    ///
    /// Applies to GPTQ, AWQ, MLX and other quantized checkpoints, and overrides --type for these tensors. The output
    /// lists the tensors that were kept, and why others were converted.
    #[arg(long, conflicts_with = "RecipeArgs", hide_short_help = true)]
    repack: bool,
}

fn conversion(matches: &ArgMatches) -> Result<Conversion, Failure> {
    let args = Command::args::<ConvertArgs>(matches)?;
    let format = args.output.format(&args.resume);
    Ok(Conversion { operation: args.options()?.into(), call: call_of(&COMMAND, matches), format })
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
    fn options(self) -> Result<Convert, Failure> {
        Ok(Convert {
            tensors: self.options.options(&self.recipe),
            to: self.to,
            adapters: self.merge.lora,
            lora_tokenizer: self.merge.lora_tokenizer,
            with_mmproj: self.projector.with_mmproj,
            mmproj_type: self.projector.mmproj_type.map(FileType::Named),
            fp8_as: self.quantized.fp8_as,
            repack: self.quantized.repack,
            config: self.config,
            keep: self.keep.keep,
            reading: self.source.options(),
            arch: self.arch.options(),
            naming: self.naming.options(),
            encoding: self.encoding.options(),
            calibration: self.calibration.options(),
            budget: self.budget.options(),
            output: self.output.options(self.out, &self.resume)?,
            hub: hub_options(),
            ..Convert::new(self.src, self.types.types)
        })
    }
}

//! `gguf-convert SRC [OUT] --type TYPE`: a checkpoint to GGUF files of one or several types.

pub mod args;

use std::path::{Path, PathBuf};

use clap::{ArgMatches, Args, ValueHint};
use gguf_checkpoint::{Checkpoint, Folder};
use gguf_conversion::{
    CheckpointInput,
    merge::LoraAdapter,
    recipes::{FileType, Recipe},
};
use gguf_toolkit::{
    calibration::CalibrationOptions,
    conversion_run::{self, OpenInput, Parts, failure},
    convert_calibrated::{self, Calibrated},
    layout_notes::{Notes, dropped, tell_unasked},
    plan_file::Wanted as OfPlan,
    plan_report::stored_as,
    settings::{OtherSettings, TensorOptions},
};
use gguf_types::DType;

use self::args::{ArchArgs, EncodingArgs, KeepArgs, NamingArgs, SourceArgs, TypeArgs};
use super::{
    Command, convert_legacy, convert_lora, convert_mmproj,
    shared::{
        call::{Call, call_of},
        conversion::print,
        cpu_level::cpu_level,
        hub,
        output_args::{OutputArgs, ResumeArgs},
        planned_calls::{self, Conversion, PlannedProgram},
        tensor_args::{BudgetArgs, CalibrationArgs, QuantizeOptions, RecipeArgs, output_parser},
        types_help::types_help,
        values,
    },
};
use crate::{failure::Failure, ui::Ui};

/// The row of [`super::COMMANDS`].
pub const COMMAND: Command = Command {
    examples: EXAMPLES,
    define: |command| {
        ConvertArgs::augment_args(command)
            .arg_required_else_help(true)
            .args_conflicts_with_subcommands(true)
            .subcommand_negates_reqs(true)
            .after_long_help(types_help(EXAMPLES))
    },
    run: |matches, ui| run(matches, &Parts::all(), ui),
    ..Command::of("gguf-convert")
};

/// The program, for its plans.
pub struct Planning;

impl PlannedProgram for Planning {
    const BINARY: &str = COMMAND.binary;
    const CONVERSIONS: &[Conversion] = &[
        (None, run),
        (convert_lora::COMMAND.verb, convert_lora::run),
        (convert_mmproj::COMMAND.verb, convert_mmproj::run),
        (convert_legacy::COMMAND.verb, convert_legacy::run),
    ];
    const EXAMPLES: &str = "\
Examples:
  gguf-convert plan plan.json Llama-3.2-1B out/ --type q4_k_m
  gguf-convert part plan.json 3/64
  gguf-convert assemble plan.json";
}

const EXAMPLES: &str = "\
Examples:
  gguf-convert Llama-3.2-1B --type q4_k_m
  gguf-convert Llama-3.2-1B out/ --type q4_k_m,q8_0
  gguf-convert Llama-3.2-1B llama-{ftype}.gguf --type bf16 --threads 4
  gguf-convert hf://meta-llama/Llama-3.2-1B --type q4_k_m
  gguf-convert Llama-3.2-1B --type q4_k_m --dry-run
  gguf-convert Llama-3.2-1B --type q4_k_m --resume
  gguf-convert Llama-3.2-1B --type q4_k_m --calibrate chats.jsonl code.txt
  gguf-convert Llama-3.2-1B merged.gguf --type q4_k_m --lora my-adapter
  gguf-convert Qwen3-VL-4B --type q4_k_m --with-mmproj
  gguf-convert my-llama --type q8_0 --arch-as llama
  gguf-convert mmproj Qwen3-VL-4B --type f16
  gguf-convert adapter my-adapter adapter.gguf --base Llama-3.2-1B
  gguf-convert vocab Llama-3.2-1B llama-vocab.gguf
  gguf-convert legacy ggml-model-q4_0.bin llama.gguf --eps 1e-6
  gguf-convert export model-Q8_0.gguf folder --type bf16

If a folder has the same name as a command, pass it as ./NAME.

Exit codes: 0 success, 1 failure, 2 usage error, 129 SIGHUP, 130 SIGINT, 143 SIGTERM. An
output file gets its final name only when it is complete.";

#[derive(Debug, Args)]
struct ConvertArgs {
    /// Checkpoint folder or hf://OWNER/MODEL[@REVISION].
    ///
    /// A folder holds config.json, safetensors and tokenizer files. Models on the Hugging Face Hub are read from the
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
    /// Merge a LoRA or DoRA adapter (repeatable).
    ///
    /// ADAPTER is a folder or hf://OWNER/ADAPTER[@REVISION] in the format of PEFT (adapter_config.json,
    /// adapter_model.safetensors), or a LoRA adapter of mlx-lm (adapters.safetensors). SCALE defaults to 1. Several
    /// adapters are merged in the given order. Weights are rounded once, to their type in the file. Metadata and
    /// tokenizer are taken from the checkpoint; see --lora-tokenizer.
    #[arg(long, value_name = "ADAPTER[=SCALE]", value_hint = ValueHint::DirPath, value_parser = lora_adapter)]
    lora: Vec<LoraArg>,
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

/// An adapter and its scale.
#[derive(Debug, Clone)]
struct LoraArg {
    adapter: PathBuf,
    scale: f64,
}

/// `ADAPTER` or `ADAPTER=SCALE`; an existing folder may have any name.
fn lora_adapter(text: &str) -> Result<LoraArg, String> {
    let whole = LoraArg { adapter: text.into(), scale: 1.0 };
    let Some((adapter, scale)) = text.rsplit_once('=').filter(|_| !whole.adapter.is_dir()) else {
        return Ok(whole);
    };
    match scale.parse() {
        Ok(scale) if f64::is_finite(scale) => Ok(LoraArg { adapter: adapter.into(), scale }),
        _ => Err(format!("`{scale}` is not a number")),
    }
}

fn run(matches: &ArgMatches, parts: &Parts<'_>, ui: &Ui) -> Result<(), Failure> {
    let args = Command::args::<ConvertArgs>(matches)?;
    // Other kinds of input have their own commands, whose names are optional.
    let verb = match () {
        () if gguf_checkpoint::is_legacy(&args.src) => convert_legacy::COMMAND.verb,
        () if args.src.is_dir() && gguf_checkpoint::is_adapter(&Folder::at(&args.src)) => {
            convert_lora::COMMAND.verb
        }
        () => None,
    };
    if let Some(verb) = verb {
        return planned_calls::run_as::<Planning>(verb, matches, parts, ui);
    }
    let options = args.options.options(&args.recipe);
    let calibration = args.calibration.options();
    let call = call_of(COMMAND.binary, None, matches)
        .reads(options.files())
        .reads(args.arch.target_model_dir.as_deref())
        .reads(calibration.files());
    if calibration.is_wanted() {
        args.check_calibration(parts)?;
    }
    // An invalid level is reported before anything is downloaded.
    cpu_level()?;
    // A dry run leaves nothing on the disk.
    let out = (!args.output.dry_run).then(|| args.out.as_deref().unwrap_or(Path::new("")));
    let wanted = hub::Wanted { weights: true, keep: args.keep.keep, out };
    let input = hub::input(&args.src, wanted, ui)?;
    let call = input.name_in(call);
    let folder = args.source.apply(&input.folder);
    if gguf_checkpoint::is_adapter(&folder) {
        return Err(Failure::at(&args.src, "expected a checkpoint, found a LoRA adapter")
            .hint(["use `gguf-convert adapter` to convert an adapter"]));
    }
    let adapters = args.merge.lora.iter().map(|lora| hub::input(&lora.adapter, wanted, ui));
    let adapters = adapters.collect::<Result<Vec<hub::Input>, Failure>>()?;
    let call = adapters.iter().fold(call, |call, adapter| adapter.name_in(call));
    to_gguf(&args, (&options, &calibration), (&folder, &adapters), (call, parts), ui)?;
    adapters.into_iter().try_for_each(|adapter| adapter.finish(ui))?;
    input.finish(ui)
}

/// `adapters` are those of `--lora`, in their order.
fn to_gguf(
    args: &ConvertArgs,
    (tensor_options, calibration): (&TensorOptions, &CalibrationOptions),
    (folder, adapters): (&Folder, &[hub::Input]),
    (call, parts): (Call, &Parts<'_>),
    ui: &Ui,
) -> Result<(), Failure> {
    let failed = |error| failure(&args.src, error);
    if !args.recipe.is_given() {
        args.types.check(&args.src, args.out.as_deref(), folder)?;
    }
    if args.quantized.fp8_as.is_some() && !args.types.recipes().iter().all(|recipe| recipe.default.is_float())
    {
        return Err(Failure::usage("--fp8-as requires --type f32, f16 or bf16"));
    }
    let settings = tensor_options.read(args.other_settings())?;
    let adapters = args.merge.lora.iter().zip(adapters).map(|(lora, found)| LoraAdapter {
        folder: found.folder.clone(),
        name: lora.adapter.clone(),
        scale: lora.scale,
        takes_tokenizer: args.merge.lora_tokenizer,
    });
    let adapters: Vec<LoraAdapter> = adapters.collect();
    let options = args.arch.options(&args.naming, ui)?;
    let input = CheckpointInput::open_with_adapters(folder.clone(), &adapters, &options).map_err(failed)?;
    let input = match args.projector.with_mmproj {
        true => input.with_projector(&options).map_err(failed)?,
        false => input,
    };
    let (checkpoint, layout) = (input.checkpoint(), input.layout());
    let types = args.types.recipes_of(checkpoint)?;
    let projector = args.projector.with_mmproj.then(|| projector_type(args, &types)).transpose()?;
    if args.quantized.fp8_as.is_some() && !layout.tensors.iter().any(|tensor| input.is_fp8(tensor)) {
        ui.warning("--fp8-as: no tensor of the checkpoint is FP8");
    }
    let mut open = opened(input, &args.src);
    let (checkpoint, layout) = (open.input.checkpoint(), open.input.layout());
    let unwritten = merged_and_dropped(checkpoint, &open.dropped);
    if !adapters.is_empty() && !unwritten.is_empty() {
        open.notes.warnings.push(format!(
            "{} of the adapter not written; add --with-mmproj if they belong to a vision tower or audio encoder: {}",
            gguf_types::counted(unwritten.len(), "tensor"),
            gguf_types::list_names(&unwritten)
        ));
    }
    if !args.merge.lora_tokenizer && has_own_tokenizer(&adapters, checkpoint) {
        open.notes.notes.push("--lora-tokenizer uses the adapter's tokenizer and chat template".to_owned());
    }
    open.notes.notes.extend(tell_unasked(layout, args.arch.arch_as.is_some(), ui));
    if args.quantized.repack {
        open.repacked = open.input.repacked().map_err(failed)?.to_vec();
    }
    let (nonfinite, format) = (settings.nonfinite(), args.output.format(&args.resume));
    let mut run_args = args.output.run(args.out.as_deref(), &args.resume, nonfinite, call, parts)?;
    let budget = args.budget.options();
    run_args.gathers = calibration.is_wanted();
    if run_args.gathers && !args.output.dry_run {
        let between = match (args.encoding.via, adapters.is_empty()) {
            (Some(via), _) => via.name(),
            (None, true) => convert_calibrated::lossless(open.input.checkpoint()),
            // Merged weights are rounded once.
            (None, false) => "f32",
        };
        let other = OtherSettings { via: None, ..args.other_settings() };
        let job = Calibrated {
            recipes: types,
            between: Recipe::from_name(between).map_err(Failure::new)?,
            settings: tensor_options.read(other)?,
            calibration,
            budget: &budget,
            threads: args.resume.threads,
        };
        return print(convert_calibrated::run(open, job, run_args, ui)?, format, ui);
    }
    print(conversion_run::run_with(open, types, projector, &settings, &run_args, ui)?, format, ui)
}

/// An input with what its layout leaves to report.
pub(super) fn opened(input: CheckpointInput, path: &Path) -> OpenInput<'_, CheckpointInput> {
    let checkpoint = input.checkpoint();
    let layouts: Vec<_> = [input.layout()].into_iter().chain(input.projector()).collect();
    OpenInput {
        path,
        files: Vec::new(),
        format: checkpoint.format,
        architecture: input.layout().architecture.to_owned(),
        notes: Notes::of(&checkpoint.notes, &layouts),
        dropped: dropped(&layouts),
        stored_as: layouts
            .iter()
            .flat_map(|layout| layout.tensors.iter().map(|tensor| stored_as(checkpoint, &tensor.data)))
            .collect(),
        repacked: Vec::new(),
        input,
    }
}

impl ConvertArgs {
    fn other_settings(&self) -> OtherSettings {
        OtherSettings {
            fp8_as: self.quantized.fp8_as,
            repack: self.quantized.repack,
            ..self.encoding.settings()
        }
    }

    /// Fails if the output is not a model that runs from one GGUF file.
    fn check_calibration(&self, parts: &Parts<'_>) -> Result<(), Failure> {
        let others = [
            (self.projector.with_mmproj, "--with-mmproj"),
            (self.arch.mtp, "--mtp"),
            (self.quantized.fp8_as.is_some(), "--fp8-as"),
            (self.quantized.repack, "--repack"),
            (parts.wanted != OfPlan::Everything, "plans"),
        ];
        match others.into_iter().find(|(is_given, _)| *is_given) {
            None => Ok(()),
            Some((_, other)) => {
                let message = format!("--calibrate cannot be used with {other}");
                let hint = "convert with --type bf16 first, then use gguf-quantize --calibrate";
                Err(Failure::usage(message).hint([hint]))
            }
        }
    }
}

/// Names of tensors that an adapter has changed and that no file holds.
fn merged_and_dropped(checkpoint: &Checkpoint, dropped: &[gguf_models::Dropped]) -> Vec<String> {
    let is_merged = |name: &str| {
        let stored = checkpoint.tensor(name).and_then(|tensor| tensor.stored.as_ref());
        let description = stored.and_then(|stored| stored.description()).unwrap_or_default();
        description.ends_with("+lora") || description.ends_with("+dora")
    };
    dropped.iter().map(|dropped| dropped.name.clone()).filter(|name| is_merged(name)).collect()
}

/// True if an adapter comes with a tokenizer or chat template that differs from the checkpoint's.
fn has_own_tokenizer(adapters: &[LoraAdapter], checkpoint: &Checkpoint) -> bool {
    let has = |adapter: &LoraAdapter| gguf_checkpoint::own_tokenizer(&adapter.folder, &checkpoint.files);
    adapters.iter().any(|adapter| has(adapter).is_ok_and(|own| !own.is_empty()))
}

/// True if the reference's converter writes files of this type itself.
pub(super) fn is_of_converter(recipe: &Recipe) -> bool {
    recipe.default.is_float() || recipe.file_type == FileType::Q8_0
}

/// The type of the projector next to a model.
fn projector_type(args: &ConvertArgs, types: &[&'static Recipe]) -> Result<&'static Recipe, Failure> {
    let first = types.first().copied().filter(|recipe| is_of_converter(recipe));
    match args.projector.mmproj_type.or(first) {
        Some(recipe) => Ok(recipe),
        None => Recipe::from_name("f16").map_err(Failure::new),
    }
}

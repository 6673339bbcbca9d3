//! `gguf-convert SRC [OUT] --type T`: a checkpoint folder to GGUF files of one or several types;
//! with `--to hf`, export.

use std::{
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::Arc,
};

use clap::{ArgMatches, Args, FromArgMatches, ValueEnum, ValueHint};
use convert::{
    CheckpointInput, NonFinite, RunOptions,
    merge::LoraAdapter,
    recipes::{FileType, Recipe},
};
use source::{Checkpoint, Folder};
use tensor::DType;

use crate::{
    commands::{
        Command, architectures,
        convert_calibrated::{self, Calibrated},
        convert_legacy::{self, Legacy, LegacyArgs},
        convert_lora::{self, Lora},
        convert_to_hf::{self, ToHf},
        shared::{
            calibration::{BudgetArgs, CalibrationArgs},
            call::Call,
            conversion_run::{self, OpenInput, Parts, RunArgs, failure},
            cpu_level::cpu_level,
            hub,
            layout_notes::{Notes, dropped, float_of, tell_unasked},
            plan_file::{PlanArgs, PlannedCall, Wanted as OfPlan},
            plan_report::stored_as,
            quantize_options::{OtherSettings, QuantizeOptions, byte_order},
            threads::parse_threads,
            types_help::types_help,
            values::{self, TypeName},
            write::output_parser,
        },
        vocab_only::{self, VocabOnly},
    },
    failure::Failure,
    ui::Ui,
};

/// The row of [`super::COMMANDS`].
pub const COMMAND: Command = Command {
    binary: "gguf-convert",
    verb: None,
    define: |command| {
        ConvertArgs::augment_args(command)
            .arg_required_else_help(true)
            .after_help(EXAMPLES)
            .after_long_help(types_help(EXAMPLES))
    },
    ui: |matches| Ui { quiet: matches.get_flag("quiet"), verbose: matches.get_flag("verbose") },
    run,
};

const EXAMPLES: &str = "\
Examples:
  gguf-convert Llama-3.2-1B --type q4_k_m
  gguf-convert Llama-3.2-1B out/ --type q4_k_m,q8_0
  gguf-convert Llama-3.2-1B llama-{ftype}.gguf --type bf16 --threads 4
  gguf-convert Llama-3.2-1B --type q4_k_m --dry-run
  gguf-convert model-Q8_0.gguf folder --to hf --type bf16
  gguf-convert Llama-3.2-1B llama-vocab.gguf --vocab-only
  gguf-convert hf://meta-llama/Llama-3.2-1B --type q4_k_m
  gguf-convert my-llama --type q8_0 --arch-as llama
  gguf-convert ggml-model-q4_0.bin llama.gguf --eps 1e-6
  gguf-convert my-adapter adapter.gguf --base Llama-3.2-1B
  gguf-convert Llama-3.2-1B merged.gguf --type q4_k_m --lora my-adapter
  gguf-convert Qwen3-VL-4B --type q4_k_m --with-mmproj
  gguf-convert Qwen3-VL-4B --type f16 --mmproj
  gguf-convert Llama-3.2-1B --type q4_k_m --calibrate chats.jsonl code.txt
  gguf-convert Llama-3.2-1B --type q4_k_m --resume
  gguf-convert Llama-3.2-1B out/ --type q4_k_m --save-plan plan.json
  gguf-convert --plan plan.json --part 3/64
  gguf-convert --plan plan.json --assemble
  gguf-convert --list-architectures

Exit codes: 0 done, 1 failed, 2 wrong call, 130 interrupted, 143 terminated, 129 hung up.
An output has its name only when it is whole.";

#[derive(Debug, Args)]
struct ConvertArgs {
    /// Checkpoint folder: config.json, safetensors, tokenizer files. Also hf://OWNER/MODEL[@REVISION], a
    /// model of the Hugging Face Hub: read from the Hub's cache, or over the network without a copy, by HF_TOKEN,
    /// HF_HOME, HF_HUB_CACHE, HF_ENDPOINT and HF_HUB_OFFLINE. With --to hf, a GGUF file. Or a LLaMA file from
    /// before GGUF (ggml, ggmf, ggjt), the first where there are parts.
    #[arg(value_hint = ValueHint::AnyPath, required_unless_present_any = ["list_architectures", "plan"])]
    src: Option<PathBuf>,
    /// Output file or folder; may hold {ftype}; a folder that ends with / is made. Without it the
    /// model names a file in the current folder.
    #[arg(value_hint = ValueHint::AnyPath, value_parser = output_parser())]
    out: Option<PathBuf>,
    /// File type, as q4_k_m; several, divided by commas, are made from one read. `auto` is bf16 or f16, as
    /// the first matrix of the checkpoint is, or f16. With --to hf, the weights' type: f32, f16 or bf16 (the default).
    #[arg(
        short = 't',
        long = "type",
        value_name = "TYPE",
        value_delimiter = ',',
        conflicts_with = "recipe",
        value_parser = values::type_name(),
        hide_possible_values = true
    )]
    types: Vec<TypeName>,
    /// What to make: GGUF files of a checkpoint (the default), or a checkpoint folder of a GGUF file.
    #[arg(long, value_name = "FORMAT", conflicts_with = "save_plan")]
    to: Option<Format>,
    /// With --to hf: bytes of weights that a file holds at most.
    #[arg(long, value_name = "BYTES", requires = "to", value_parser = clap::value_parser!(u64).range(1..))]
    shard_bytes: Option<u64>,
    /// List tensors, dtypes, the reasons for them and sizes; write nothing. Headers are read, no weights, but for the
    /// output and the embedding of Mamba and Whisper where a checkpoint has both.
    #[arg(long)]
    dry_run: bool,
    /// Replace an output that is there, and forget a run that was stopped.
    #[arg(short, long)]
    force: bool,
    /// Go on with the run that was stopped (Ctrl-C, kill, a crash, a power cut): what it wrote is compared with its journal,
    /// and the file has the same bytes. Without such a run it begins from the start.
    #[arg(long, conflicts_with_all = ["to", "vocab_only", "dry_run"])]
    resume: bool,
    /// Threads to work with; all cores by default. The bytes do not depend on it.
    #[arg(short = 'j', long, value_name = "N", value_parser = parse_threads)]
    threads: Option<NonZeroUsize>,
    /// Put what is fetched from the Hub into its cache, with checksums compared; else nothing of it is left.
    #[arg(long, conflicts_with_all = ["dry_run", "vocab_only", "to", "save_plan"])]
    keep: bool,
    /// Convert NaNs and infinities instead of refusing them.
    #[arg(long)]
    allow_nonfinite: bool,
    /// Write big-endian files, for s390x and the like.
    #[arg(long, conflicts_with = "to")]
    big_endian: bool,
    /// Round weights to this type first, as the reference's two steps do with bf16.
    #[arg(long, value_name = "DTYPE", value_parser = values::float())]
    via: Option<DType>,
    /// With --type f32, f16 or bf16: the type of matrices that are FP8 in the checkpoint; q8_0, which is nearly
    /// as large and runs faster than floats.
    #[arg(long, value_name = "DTYPE", value_parser = values::fp8_as(), conflicts_with_all = ["to", "vocab_only", "base", "recipe"])]
    fp8_as: Option<DType>,
    /// Keep the values of quantized weights (GPTQ, AWQ, MLX and others) bit for bit wherever a ggml type can hold them, in
    /// the place of the type that --type gives them; the report says which tensors and why not others. Reads all scales
    /// first.
    #[arg(long, conflicts_with_all = ["to", "vocab_only", "base", "recipe", "save_recipe"])]
    repack: bool,
    /// Read Mistral's own layout (params.json, consolidated*.safetensors) also where Hugging Face's copy of the
    /// weights lies beside it.
    #[arg(long, conflicts_with_all = ["to", "base"])]
    mistral_format: bool,
    /// Take GPTQ's zero points that are stored with all bits set for one more than the largest code, as the reference does;
    /// without this they are 0, as in the kernels that run such models.
    #[arg(long, conflicts_with_all = ["to", "base"])]
    unmasked_zeros: bool,
    /// The model's name, whatever the checkpoint says.
    #[arg(long, value_name = "NAME")]
    model_name: Option<String>,
    /// The pre-tokenizer, for a tokenizer that is not recognized.
    #[arg(long, value_name = "NAME")]
    pre: Option<String>,
    /// Take the checkpoint for this architecture (a name or a class of --list-architectures),
    /// whatever class its config names.
    #[arg(long, value_name = "NAME")]
    arch_as: Option<String>,
    /// Leave out the layers that predict more than the next token (multi-token prediction).
    #[arg(long, conflicts_with_all = ["mtp", "to", "base"])]
    no_mtp: bool,
    /// Write the layers that predict more than the next token alone, with embedding, last norm and output: the draft
    /// for a file made with --no-mtp. The default name begins with mtp-.
    #[arg(long, conflicts_with_all = ["to", "base"])]
    mtp: bool,
    /// For a draft (EAGLE 3, DFlash, DSpark): the folder of the model that it drafts for, from which tokenizer and sizes are
    /// taken. It need not have weights.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, conflicts_with_all = ["to", "base"])]
    target_model_dir: Option<PathBuf>,
    /// For a LoRA adapter (adapter_config.json, adapter_model.safetensors): the folder of its base
    /// model, whose config says what the matrices are; with its weights, shapes are checked. The
    /// --type is f32 (the default), f16, bf16 or q8_0.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, conflicts_with_all = ["to", "vocab_only", "via", "recipe"])]
    base: Option<PathBuf>,
    /// Merge a LoRA or DoRA adapter of PEFT (adapter_config.json, adapter_model.safetensors) into the weights while
    /// they are read, SCALE times (1 by default); several are merged in their order. Also hf://OWNER/ADAPTER[@REVISION].
    /// Weights are rounded once, to their type in the file. Metadata and tokenizer stay those of the checkpoint.
    #[arg(long, value_name = "ADAPTER[=SCALE]", value_hint = ValueHint::DirPath, value_parser = lora_adapter, conflicts_with_all = ["base", "to", "vocab_only"])]
    lora: Vec<LoraArg>,
    /// Write the projector only: the towers that make embeddings of images or sound, for `--mmproj` of llama.cpp.
    #[arg(long, conflicts_with_all = ["with_mmproj", "to", "vocab_only", "base", "lora", "fp8_as", "repack", "arch_as", "recipe", "save_recipe"])]
    mmproj: bool,
    /// Write the projector beside the model, in one run: its file has the name of the model's with `mmproj-` before it.
    #[arg(long, conflicts_with_all = ["to", "vocab_only", "base", "recipe", "save_recipe"])]
    with_mmproj: bool,
    /// With --with-mmproj: the file type of the projector; the first --type where that is a float or q8_0, else f16.
    #[arg(long, value_name = "TYPE", requires = "with_mmproj", value_parser = values::file_type(), hide_possible_values = true)]
    mmproj_type: Option<&'static Recipe>,
    /// Write metadata and tokenizer only, no weights; the folder need not have any. A --type f32,
    /// f16, bf16 or q8_0 is noted in the file; without one, that of the weights.
    #[arg(long, conflicts_with_all = ["to", "via", "recipe", "save_plan"])]
    vocab_only: bool,
    /// List every architecture that can be converted; with class names and a public checkpoint.
    #[arg(long, conflicts_with_all = ["src", "types", "to"])]
    list_architectures: bool,
    /// Put the tokenizer's own file into the metadata as well (tokenizer.huggingface.json,
    /// tokenizer.rwkv.world).
    #[arg(long)]
    embed_tokenizer_json: bool,
    /// Give a llama tokenizer that is there as tokenizer.json only the scores that its merges imply,
    /// so that llama.cpp cuts text as the model does; the reference gives every token the same.
    #[arg(long)]
    scores_from_merges: bool,
    /// Write the matrices of sentence-transformers behind a model that makes vectors of texts as well (2_Dense, 3_Dense of
    /// EmbeddingGemma).
    #[arg(long, conflicts_with = "to")]
    dense_modules: bool,
    /// The plan or the result as JSON on stdout.
    #[arg(long)]
    json: bool,
    /// Say nothing but errors.
    #[arg(short, long)]
    quiet: bool,
    /// Say more.
    #[arg(short, long)]
    verbose: bool,
    #[command(flatten)]
    options: QuantizeOptions,
    #[command(flatten)]
    calibration: CalibrationArgs,
    #[command(flatten)]
    budget: BudgetArgs,
    #[command(flatten)]
    legacy: LegacyArgs,
    #[command(flatten)]
    plans: PlanArgs,
}

/// What to make.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// GGUF files of a checkpoint folder.
    Gguf,
    /// A Hugging Face folder of a GGUF file.
    Hf,
}

fn run(matches: &ArgMatches, ui: &Ui) -> Result<(), Failure> {
    let own = ConvertArgs::from_arg_matches(matches).map_err(Failure::usage)?;
    let planned = PlannedCall::new(COMMAND.binary, matches, own.plans.plan.as_deref())?;
    let matches = &planned.matches;
    let args = match &planned.plan {
        None => own,
        // What a machine does of a plan, and how, is its own affair.
        Some(_) => ConvertArgs {
            plans: own.plans,
            threads: own.threads,
            force: own.force,
            quiet: own.quiet,
            verbose: own.verbose,
            ..ConvertArgs::from_arg_matches(matches).map_err(Failure::usage)?
        },
    };
    let parts =
        Parts { wanted: args.plans.wanted(), plan: planned.plan.as_ref(), arguments: &planned.arguments };
    let call = Call::new(COMMAND.binary, matches).reads(args.files()).reads(args.calibration.files());
    let nonfinite = if args.allow_nonfinite { NonFinite::Allow } else { NonFinite::Refuse };
    if args.list_architectures {
        return architectures::list(args.json, ui);
    }
    let is_legacy = source::is_legacy(args.src());
    if args.legacy.any() && !is_legacy {
        return Err(Failure::usage(
            "--config, --eps, --context-length and --rope-base are for files from before GGUF; others say these themselves",
        ));
    }
    if args.calibration.is_wanted() {
        args.check_calibration(is_legacy, &parts)?;
    }
    let run_options = RunOptions::default().threads(args.threads).level(cpu_level()?).nonfinite(nonfinite);
    if let Some(Format::Hf) = args.to {
        return to_hf(&args, &run_options, ui);
    }
    if is_legacy {
        return legacy(&args, call, &parts, &run_options, ui);
    }
    // Of a dry run and of a vocabulary nothing is left on the disk.
    let out = (!args.vocab_only && !args.dry_run).then(|| args.out.as_deref().unwrap_or(Path::new("")));
    let wanted = hub::Wanted { weights: !args.vocab_only, keep: args.keep, out };
    let input = hub::input(args.src(), wanted, ui)?;
    let call = input.name_in(call);
    let folder = input.folder.clone().mistral_format(args.mistral_format).unmasked_zeros(args.unmasked_zeros);
    let folder = &folder;
    match args.base.is_some() || source::is_adapter(folder.path()) {
        _ if args.vocab_only => vocab(&args, folder, ui)?,
        true => lora(&args, folder, call, &parts, &run_options, ui)?,
        false => {
            let adapters = args.lora.iter().map(|lora| hub::input(&lora.adapter, wanted, ui));
            let adapters = adapters.collect::<Result<Vec<hub::Input>, Failure>>()?;
            let call = adapters.iter().fold(call, |call, adapter| adapter.name_in(call));
            to_gguf(&args, (folder, &adapters), call, &parts, &run_options, ui)?;
            adapters.into_iter().try_for_each(|adapter| adapter.finish(ui))?;
        }
    }
    input.finish(ui)
}

impl ConvertArgs {
    /// The input; only the list of architectures has none.
    fn src(&self) -> &Path {
        self.src.as_deref().unwrap_or(Path::new(""))
    }

    /// The types that are named.
    fn recipes(&self) -> Vec<&'static Recipe> {
        let named = |name: &TypeName| match name {
            TypeName::Of(recipe) => Some(*recipe),
            TypeName::Auto => None,
        };
        self.types.iter().filter_map(named).collect()
    }

    /// The types that are to be made of a checkpoint.
    fn recipes_of(&self, checkpoint: &Checkpoint) -> Result<Vec<&'static Recipe>, Failure> {
        let of = |name: &TypeName| match name {
            TypeName::Of(recipe) => Ok(*recipe),
            TypeName::Auto => Recipe::from_name(float_of(checkpoint)).map_err(Failure::new),
        };
        self.types.iter().map(of).collect()
    }

    fn run_args<'a>(&'a self, options: RunOptions, call: &Call, parts: &Parts<'a>) -> RunArgs<'a> {
        let ConvertArgs { force, dry_run, json, .. } = *self;
        let (call, parts) = (call.clone(), parts.clone());
        RunArgs { out: self.out.as_deref(), force, dry_run, json, options, call, parts }
    }

    /// What is read beside the input and what the Hub may have.
    fn files(&self) -> impl Iterator<Item = &Path> {
        let of_legacy = self.legacy.config.as_deref();
        self.options.files().into_iter().chain(of_legacy).chain(self.target_model_dir.as_deref())
    }

    fn other_settings(&self) -> OtherSettings {
        OtherSettings {
            allow_nonfinite: self.allow_nonfinite,
            via: self.via,
            fp8_as: self.fp8_as,
            repack: self.repack,
            endian: byte_order(self.big_endian),
            ..OtherSettings::default()
        }
    }

    /// Fails where what is made is not a model that runs from one GGUF file.
    fn check_calibration(&self, is_legacy: bool, parts: &Parts<'_>) -> Result<(), Failure> {
        let two_steps = "two steps do more: --type bf16 here, then gguf-quantize --calibrate";
        let not_with = [
            (self.to.is_some(), "--to"),
            (self.vocab_only, "--vocab-only"),
            (self.base.is_some(), "--base"),
            (self.mmproj, "--mmproj"),
            (self.with_mmproj, "--with-mmproj"),
            (self.mtp, "--mtp"),
            (self.fp8_as.is_some(), "--fp8-as"),
            (self.repack, "--repack"),
            (parts.wanted != OfPlan::Everything, "parts of a plan"),
            (is_legacy, "a file from before GGUF"),
        ];
        match not_with.into_iter().find(|(is_given, _)| *is_given) {
            None => Ok(()),
            Some((_, what)) => {
                let message = format!("--calibrate runs the whole model, which does not go with {what}");
                Err(Failure::usage(message).hint([two_steps]))
            }
        }
    }

    /// How to resolve; the folder of a draft's target is read.
    fn arch_options(&self, ui: &Ui) -> Result<arch::Options, Failure> {
        let target = self.target_model_dir.as_deref().map(|dir| {
            let wanted = hub::Wanted { weights: false, keep: false, out: None };
            let input = hub::input(dir, wanted, ui)?;
            let target = convert::target(input.folder.clone()).map_err(|error| failure(dir, error))?;
            input.finish(ui)?;
            Ok::<_, Failure>(Arc::new(target))
        });
        Ok(arch::Options {
            target: target.transpose()?,
            prediction: match (self.mtp, self.no_mtp) {
                (true, _) => arch::Prediction::Only,
                (_, true) => arch::Prediction::Without,
                _ => arch::Prediction::With,
            },
            model_name: self.model_name.clone(),
            pre: self.pre.clone(),
            embed_tokenizer_json: self.embed_tokenizer_json,
            dense_modules: self.dense_modules,
            scores_from_merges: self.scores_from_merges,
            arch_as: self.arch_as.clone(),
            vocab_only: self.vocab_only,
            ..arch::Options::default()
        })
    }
}

fn vocab(args: &ConvertArgs, folder: &Folder, ui: &Ui) -> Result<(), Failure> {
    if args.options.any() {
        return Err(Failure::usage(
            "--vocab-only writes no tensors; options about their types make no sense",
        ));
    }
    let file_type = match &args.recipes()[..] {
        [] => None,
        [recipe] if is_of_converter(recipe) => Some(recipe.file_type),
        _ => return Err(Failure::usage("--vocab-only takes one --type: f32, f16, bf16 or q8_0")),
    };
    let job = VocabOnly {
        input: args.src(),
        folder,
        out: args.out.as_deref(),
        file_type,
        endian: byte_order(args.big_endian),
        options: &args.arch_options(ui)?,
        force: args.force,
        dry_run: args.dry_run,
        json: args.json,
    };
    vocab_only::run(&job, |error| failure(args.src(), error), ui)
}

fn lora(
    args: &ConvertArgs,
    folder: &Folder,
    call: Call,
    parts: &Parts<'_>,
    run_options: &RunOptions,
    ui: &Ui,
) -> Result<(), Failure> {
    if args.mmproj || args.with_mmproj {
        return Err(Failure::usage("an adapter has no projector"));
    }
    if args.options.any() || !args.recipes().into_iter().all(is_of_converter) {
        return Err(Failure::usage(
            "an adapter takes no options about types but --type: f32, f16, bf16 or q8_0",
        ));
    }
    let wanted = hub::Wanted { weights: false, keep: false, out: None };
    let base = args.base.as_deref().map(|base| hub::input(base, wanted, ui)).transpose()?;
    let job = Lora {
        input: args.src(),
        folder,
        base: base.as_ref().map(|base| &base.folder),
        types: &args.recipes(),
        endian: byte_order(args.big_endian),
        arch: &args.arch_options(ui)?,
    };
    let call = base.iter().fold(call, |call, base| base.name_in(call));
    convert_lora::run(&job, &args.run_args(run_options.clone(), &call, parts), ui)
}

fn legacy(
    args: &ConvertArgs,
    call: Call,
    parts: &Parts<'_>,
    run_options: &RunOptions,
    ui: &Ui,
) -> Result<(), Failure> {
    if args.vocab_only || args.base.is_some() || !args.lora.is_empty() || args.fp8_as.is_some() {
        return Err(Failure::usage(
            "a file from before GGUF takes no --vocab-only, --base, --lora and --fp8-as",
        ));
    }
    if args.mmproj || args.with_mmproj {
        return Err(Failure::usage("a file from before GGUF has no projector"));
    }
    let settings = args.options.read(OtherSettings { allow_requantize: true, ..args.other_settings() })?;
    let recipes = args.recipes();
    let types = if args.options.has_recipe() { None } else { Some(&recipes[..]) };
    let job = Legacy {
        input: args.src(),
        args: &args.legacy,
        types,
        settings: &settings,
        arch: &args.arch_options(ui)?,
    };
    let run_args = args.run_args(run_options.clone().nonfinite(settings.nonfinite()), &call, parts);
    convert_legacy::run(&job, &run_args, ui)
}

fn to_hf(args: &ConvertArgs, options: &RunOptions, ui: &Ui) -> Result<(), Failure> {
    if args.options.any() {
        return Err(Failure::usage(
            "--to hf takes tensors as they are; options about their types make no sense",
        ));
    }
    let out = args.out.as_deref().ok_or_else(|| Failure::usage("--to hf needs the folder to write"))?;
    let dtype = match &args.recipes()[..] {
        [] => DType::BF16,
        [recipe] if recipe.default.is_float() => recipe.default,
        _ => return Err(Failure::usage("--to hf takes one --type: f32, f16 or bf16")),
    };
    let job = ToHf {
        input: args.src(),
        out,
        dtype,
        shard_bytes: args.shard_bytes,
        force: args.force,
        dry_run: args.dry_run,
        json: args.json,
        options,
    };
    convert_to_hf::run(&job, ui)
}

/// An adapter as it is named, and how many times it is taken.
#[derive(Debug, Clone)]
struct LoraArg {
    adapter: PathBuf,
    scale: f64,
}

/// `ADAPTER` or `ADAPTER=SCALE`; a folder that is there may have any name.
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

/// `adapters` are those of `--lora`, in their order.
fn to_gguf(
    args: &ConvertArgs,
    (folder, adapters): (&Folder, &[hub::Input]),
    call: Call,
    parts: &Parts<'_>,
    run_options: &RunOptions,
    ui: &Ui,
) -> Result<(), Failure> {
    if args.types.is_empty() && !args.options.has_recipe() {
        // What can never be converted is told first, whatever type it were.
        source::open(folder.clone()).map_err(|error| failure(args.src(), convert::Error::Source(error)))?;
        return Err(Failure::usage("a --type is needed, as q4_k_m or bf16")
            .hint(["`--type auto` keeps the weights of a checkpoint of 16 bits; `--help` lists the types"]));
    }
    if args.fp8_as.is_some() && !args.recipes().iter().all(|recipe| recipe.default.is_float()) {
        return Err(Failure::usage(
            "--fp8-as goes with --type f32, f16 and bf16; other types quantize all matrices",
        ));
    }
    let settings = args.options.read(args.other_settings())?;
    let adapters = args.lora.iter().zip(adapters).map(|(LoraArg { adapter, scale }, found)| LoraAdapter {
        folder: found.folder.clone(),
        name: adapter.clone(),
        scale: *scale,
    });
    let adapters: Vec<LoraAdapter> = adapters.collect();
    let input =
        open(args, folder, &adapters, &args.arch_options(ui)?).map_err(|error| failure(args.src(), error))?;
    let (checkpoint, layout) = (input.checkpoint(), input.layout());
    let types = args.recipes_of(checkpoint)?;
    let projector = args.with_mmproj.then(|| projector_type(args, &types)).transpose()?;
    let layouts: Vec<_> = [layout].into_iter().chain(input.projector()).collect();
    if args.fp8_as.is_some() && !layout.tensors.iter().any(|tensor| input.is_of_fp8(tensor)) {
        ui.warning("--fp8-as: no tensor of the checkpoint is FP8");
    }
    let mut notes = Notes::of(&checkpoint.notes, &layouts);
    notes.notes.extend(tell_unasked(layout, args.arch_as.is_some(), ui));
    let open = OpenInput {
        path: args.src(),
        files: Vec::new(),
        format: checkpoint.format,
        architecture: layout.architecture.to_owned(),
        notes,
        dropped: dropped(&layouts),
        stored_as: layouts
            .iter()
            .flat_map(|layout| layout.tensors.iter().map(|tensor| stored_as(checkpoint, &tensor.data)))
            .collect(),
        repacked: match args.repack {
            true => input.repacked().map_err(|error| failure(args.src(), error))?.to_vec(),
            false => Vec::new(),
        },
        input,
    };
    let run_args = args.run_args(run_options.clone().nonfinite(settings.nonfinite()), &call, parts);
    if args.calibration.is_wanted() && !args.dry_run {
        let between = match (args.via, adapters.is_empty()) {
            (Some(via), _) => via.name(),
            (None, true) => convert_calibrated::lossless(open.input.checkpoint()),
            // What is merged is rounded once.
            (None, false) => "f32",
        };
        let job = Calibrated {
            recipes: types,
            between: Recipe::from_name(between).map_err(Failure::new)?,
            settings: args.options.read(OtherSettings { via: None, ..args.other_settings() })?,
            calibration: &args.calibration,
            budget: &args.budget,
            threads: args.threads,
        };
        return convert_calibrated::run(open, job, run_args, ui);
    }
    conversion_run::run_with(open, types, projector, &settings, &run_args, ui)
}

/// The folder with what is wanted of it.
fn open(
    args: &ConvertArgs,
    folder: &Folder,
    adapters: &[LoraAdapter],
    options: &arch::Options,
) -> Result<CheckpointInput, convert::Error> {
    if args.mmproj {
        return CheckpointInput::open_projector(folder.clone(), options);
    }
    let input = CheckpointInput::open_with_adapters(folder.clone(), adapters, options)?;
    if args.with_mmproj { input.with_projector(options) } else { Ok(input) }
}

/// Whether the reference's converter writes files of this type itself.
fn is_of_converter(recipe: &Recipe) -> bool {
    recipe.default.is_float() || recipe.file_type == FileType::Q8_0
}

/// The type of the projector beside a model.
fn projector_type(args: &ConvertArgs, types: &[&'static Recipe]) -> Result<&'static Recipe, Failure> {
    match args.mmproj_type.or(types.first().copied().filter(|recipe| is_of_converter(recipe))) {
        Some(recipe) => Ok(recipe),
        None => Recipe::from_name("f16").map_err(Failure::new),
    }
}

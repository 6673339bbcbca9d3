//! What `gguf-convert` is called with.

use std::{
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::Arc,
};

use clap::{Args, ValueEnum, ValueHint};
use convert::{RunOptions, recipes::Recipe};
use source::Checkpoint;
use tensor::DType;

use crate::{
    commands::{
        convert_legacy::LegacyArgs,
        shared::{
            calibration::{BudgetArgs, CalibrationArgs},
            call::Call,
            conversion_run::{Parts, RunArgs, failure},
            hub,
            layout_notes::float_of,
            plan_file::{PlanArgs, Wanted as OfPlan},
            quantize_options::{OtherSettings, QuantizeOptions, byte_order},
            threads::parse_threads,
            values::{self, TypeName},
            write::output_parser,
        },
    },
    failure::Failure,
    ui::Ui,
};

pub const EXAMPLES: &str = "\
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
pub struct ConvertArgs {
    /// Checkpoint folder or hf://OWNER/MODEL[@REVISION].
    ///
    /// A folder holds config.json, safetensors and tokenizer files. Models of the Hugging Face Hub are read from its cache, or over
    /// the network without a copy (see HF_TOKEN, HF_HOME, HF_HUB_CACHE, HF_ENDPOINT and HF_HUB_OFFLINE). SRC may also be a LoRA
    /// adapter, the first file of a LLaMA model from before GGUF (ggml, ggmf, ggjt) or, with --to hf, a GGUF file.
    #[arg(value_hint = ValueHint::AnyPath, required_unless_present_any = ["list_architectures", "plan"])]
    pub src: Option<PathBuf>,
    /// Output file or folder; may contain {ftype}.
    ///
    /// A path that ends with / is a folder, which is created. By default the file is named after the model and written to the
    /// current folder.
    #[arg(value_hint = ValueHint::AnyPath, value_parser = output_parser())]
    pub out: Option<PathBuf>,
    /// Set the file type, for example q4_k_m.
    ///
    /// A comma-separated list writes several files in one pass. `auto` is bf16 or f16, depending on the first matrix of the
    /// checkpoint. With --to hf it is the type of the weights: f32, f16 or bf16 (the default). The list of types is below.
    #[arg(
        short = 't',
        long = "type",
        value_name = "TYPE",
        value_delimiter = ',',
        conflicts_with = "recipe",
        value_parser = values::type_name(),
        hide_possible_values = true
    )]
    pub types: Vec<TypeName>,
    /// Print the plan without writing anything.
    ///
    /// The plan lists each tensor with its type, the reason for it, and its size.
    #[arg(long)]
    pub dry_run: bool,
    /// Overwrite existing outputs.
    ///
    /// Discards an interrupted run, too.
    #[arg(long)]
    pub force: bool,
    /// Resume an interrupted run.
    ///
    /// Finished rows are verified first, and the result is byte-identical. Without an interrupted run, a new one starts.
    #[arg(long, conflicts_with_all = ["to", "vocab_only", "dry_run"])]
    pub resume: bool,
    /// Use N threads.
    ///
    /// Default: one per core. The output does not depend on it.
    #[arg(short = 'j', long, value_name = "N", value_parser = parse_threads)]
    pub threads: Option<NonZeroUsize>,
    /// Merge a LoRA or DoRA adapter (repeatable).
    ///
    /// ADAPTER is a folder or hf://OWNER/ADAPTER[@REVISION] in the format of PEFT (adapter_config.json, adapter_model.safetensors), or
    /// a LoRA adapter of mlx-lm (adapters.safetensors). SCALE defaults to 1. Several adapters are merged in their order. Weights are
    /// rounded once, to their type in the file. Metadata and tokenizer are those of the checkpoint; see --lora-tokenizer.
    #[arg(long, value_name = "ADAPTER[=SCALE]", value_hint = ValueHint::DirPath, value_parser = lora_adapter, conflicts_with_all = ["base", "to", "vocab_only"])]
    pub lora: Vec<LoraArg>,
    /// Also write the vision or audio projector.
    ///
    /// Its file is named like the model's, with the prefix `mmproj-`.
    #[arg(long, conflicts_with_all = ["to", "vocab_only", "base", "recipe", "save_recipe"], hide_short_help = true)]
    pub with_mmproj: bool,
    /// Print the result as JSON.
    #[arg(long, hide_short_help = true)]
    pub json: bool,
    /// Print only errors.
    #[arg(short, long)]
    pub quiet: bool,
    /// Print more details.
    #[arg(short, long, hide_short_help = true)]
    pub verbose: bool,
    /// Choose what to write: gguf or hf.
    ///
    /// `gguf` (the default) converts a checkpoint to GGUF files, `hf` exports a GGUF file to a checkpoint folder.
    #[arg(
        long,
        value_name = "FORMAT",
        conflicts_with = "save_plan",
        hide_short_help = true,
        hide_possible_values = true
    )]
    pub to: Option<Format>,
    /// With --to hf: limit the weights per file to BYTES.
    #[arg(long, value_name = "BYTES", requires = "to", value_parser = clap::value_parser!(u64).range(1..), hide_short_help = true)]
    pub shard_bytes: Option<u64>,
    /// Write only metadata and tokenizer, without weights.
    ///
    /// The checkpoint need not have weights. --type (f32, f16, bf16 or q8_0) is noted in the file; by default it is that of the
    /// weights.
    #[arg(long, conflicts_with_all = ["to", "via", "recipe", "save_plan"], hide_short_help = true)]
    pub vocab_only: bool,
    /// List the supported architectures.
    ///
    /// Prints the classes and a public checkpoint of each.
    #[arg(long, conflicts_with_all = ["src", "types", "to"], hide_short_help = true)]
    pub list_architectures: bool,

    /// Store downloads in the cache of the Hub.
    ///
    /// Checksums are verified. By default nothing of a download is kept.
    #[arg(long, conflicts_with_all = ["dry_run", "vocab_only", "to", "save_plan"], help_heading = CHECKPOINT, hide_short_help = true)]
    pub keep: bool,
    /// Read Mistral's own files if both layouts are present.
    ///
    /// These are params.json and consolidated*.safetensors. By default the Hugging Face files are preferred.
    #[arg(long, conflicts_with_all = ["to", "base"], help_heading = CHECKPOINT, hide_short_help = true)]
    pub mistral_format: bool,
    /// Read GPTQ zero points of all ones as in the reference.
    ///
    /// The reference takes them for one more than the largest code. By default they are 0, as in the kernels that run such models.
    #[arg(long, conflicts_with_all = ["to", "base"], help_heading = CHECKPOINT, hide_short_help = true)]
    pub unmasked_zeros: bool,
    /// Convert NaNs and infinities instead of failing.
    #[arg(long, help_heading = CHECKPOINT, hide_short_help = true)]
    pub allow_nonfinite: bool,
    /// Treat the checkpoint as this architecture.
    ///
    /// NAME is a name or class of --list-architectures.
    #[arg(long, value_name = "NAME", help_heading = CHECKPOINT, hide_short_help = true)]
    pub arch_as: Option<String>,
    /// Set the pre-tokenizer, if it is not recognized.
    #[arg(long, value_name = "NAME", help_heading = CHECKPOINT, hide_short_help = true)]
    pub pre: Option<String>,
    /// Use the tokenizer of the adapter, with --lora.
    ///
    /// Takes its chat template too, and its embeddings if the vocabulary was resized. This corresponds to
    /// `resize_token_embeddings`, `merge_and_unload` and `tokenizer.save_pretrained`. The last adapter with a tokenizer wins.
    #[arg(long, requires = "lora", help_heading = CHECKPOINT, hide_short_help = true)]
    pub lora_tokenizer: bool,
    /// Use MODEL as the base.
    ///
    /// For a LoRA adapter as SRC: the folder of its base model. config.json suffices; if weights are there, shapes are checked. The
    /// --type is f32 (the default), f16, bf16 or q8_0.
    #[arg(long, value_name = "MODEL", value_hint = ValueHint::DirPath, conflicts_with_all = ["to", "vocab_only", "via", "recipe"], help_heading = CHECKPOINT, hide_short_help = true)]
    pub base: Option<PathBuf>,
    /// Name the target model of a draft.
    ///
    /// For an EAGLE 3, DFlash or DSpark draft: the folder of the model that it drafts for, which provides tokenizer and sizes. Weights
    /// are not needed.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, conflicts_with_all = ["to", "base"], help_heading = CHECKPOINT, hide_short_help = true)]
    pub target_model_dir: Option<PathBuf>,

    /// Set the name of the model.
    #[arg(long, value_name = "NAME", help_heading = FILE, hide_short_help = true)]
    pub model_name: Option<String>,
    /// Round weights to this type first.
    ///
    /// `bf16` reproduces the two steps of the reference.
    #[arg(long, value_name = "DTYPE", value_parser = values::float(), hide_possible_values = true, help_heading = FILE, hide_short_help = true)]
    pub via: Option<DType>,
    /// Set the type of FP8 matrices: q8_0.
    ///
    /// Goes with --type f32, f16 or bf16. q8_0 is nearly as large as FP8 and faster than floats.
    #[arg(long, value_name = "DTYPE", value_parser = values::fp8_as(), hide_possible_values = true, conflicts_with_all = ["to", "vocab_only", "base", "recipe"], help_heading = FILE, hide_short_help = true)]
    pub fp8_as: Option<DType>,
    /// Keep quantized weights bit for bit if a ggml type can hold them.
    ///
    /// Applies to GPTQ, AWQ, MLX and other quantized checkpoints, and overrides --type for these tensors. The report lists the
    /// tensors and why others were converted. All scales are read first.
    #[arg(long, conflicts_with_all = ["to", "vocab_only", "base", "recipe", "save_recipe"], help_heading = FILE, hide_short_help = true)]
    pub repack: bool,
    /// Write big-endian files, for example for s390x.
    #[arg(long, conflicts_with = "to", help_heading = FILE, hide_short_help = true)]
    pub big_endian: bool,
    /// Leave out the multi-token prediction layers.
    #[arg(long, conflicts_with_all = ["mtp", "to", "base"], help_heading = FILE, hide_short_help = true)]
    pub no_mtp: bool,
    /// Write only the multi-token prediction layers, as a draft.
    ///
    /// Embedding, final norm and output are included. It drafts for a file made with --no-mtp. The default name starts with `mtp-`.
    #[arg(long, conflicts_with_all = ["to", "base"], help_heading = FILE, hide_short_help = true)]
    pub mtp: bool,
    /// Write only the vision or audio projector.
    ///
    /// It is the file for `--mmproj` of llama.cpp.
    #[arg(long, conflicts_with_all = ["with_mmproj", "to", "vocab_only", "base", "lora", "fp8_as", "repack", "arch_as", "recipe", "save_recipe"], help_heading = FILE, hide = true)]
    pub mmproj: bool,
    /// Set the file type of the projector, with --with-mmproj.
    ///
    /// Default: the first --type if it is a float or q8_0, otherwise f16.
    #[arg(long, value_name = "TYPE", requires = "with_mmproj", value_parser = values::file_type(), hide_possible_values = true, help_heading = FILE, hide_short_help = true)]
    pub mmproj_type: Option<&'static Recipe>,
    /// Embed the tokenizer's own file in the metadata.
    ///
    /// The key is tokenizer.huggingface.json or tokenizer.rwkv.world.
    #[arg(long, help_heading = FILE, hide_short_help = true)]
    pub embed_tokenizer_json: bool,
    /// Derive token scores from the merges of tokenizer.json.
    ///
    /// For a `llama` tokenizer without tokenizer.model: llama.cpp then tokenizes as the model does. The reference gives all tokens the
    /// same score.
    #[arg(long, help_heading = FILE, hide_short_help = true)]
    pub scores_from_merges: bool,
    /// Include the dense layers of a sentence-transformers model.
    ///
    /// These are 2_Dense and 3_Dense of EmbeddingGemma, for example.
    #[arg(long, conflicts_with = "to", help_heading = FILE, hide_short_help = true)]
    pub dense_modules: bool,
    #[command(flatten)]
    pub options: QuantizeOptions,
    #[command(flatten)]
    pub calibration: CalibrationArgs,
    #[command(flatten)]
    pub budget: BudgetArgs,
    #[command(flatten)]
    pub legacy: LegacyArgs,
    #[command(flatten)]
    pub plans: PlanArgs,
}

const CHECKPOINT: &str = "Checkpoint";
const FILE: &str = "Output file";

/// The kind of output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// GGUF files of a checkpoint.
    Gguf,
    /// Checkpoint folder of a GGUF file.
    Hf,
}

/// An adapter as it is named, and how many times it is taken.
#[derive(Debug, Clone)]
pub struct LoraArg {
    pub adapter: PathBuf,
    pub scale: f64,
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

impl ConvertArgs {
    /// The input; only the list of architectures has none.
    pub fn src(&self) -> &Path {
        self.src.as_deref().unwrap_or(Path::new(""))
    }

    /// The types that are named.
    pub fn recipes(&self) -> Vec<&'static Recipe> {
        let named = |name: &TypeName| match name {
            TypeName::Of(recipe) => Some(*recipe),
            TypeName::Auto => None,
        };
        self.types.iter().filter_map(named).collect()
    }

    /// The types that are to be made of a checkpoint.
    pub fn recipes_of(&self, checkpoint: &Checkpoint) -> Result<Vec<&'static Recipe>, Failure> {
        let of = |name: &TypeName| match name {
            TypeName::Of(recipe) => Ok(*recipe),
            TypeName::Auto => Recipe::from_name(float_of(checkpoint)).map_err(Failure::new),
        };
        self.types.iter().map(of).collect()
    }

    pub fn run_args<'a>(&'a self, options: RunOptions, call: &Call, parts: &Parts<'a>) -> RunArgs<'a> {
        let ConvertArgs { force, dry_run, json, .. } = *self;
        let (call, parts) = (call.clone(), parts.clone());
        let gathers = self.calibration.is_wanted();
        RunArgs { out: self.out.as_deref(), force, dry_run, json, gathers, options, call, parts }
    }

    /// What is read beside the input and what the Hub may have.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        let of_legacy = self.legacy.config.as_deref();
        self.options.files().into_iter().chain(of_legacy).chain(self.target_model_dir.as_deref())
    }

    pub fn other_settings(&self) -> OtherSettings {
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
    pub fn check_calibration(&self, is_legacy: bool, parts: &Parts<'_>) -> Result<(), Failure> {
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
    pub fn arch_options(&self, ui: &Ui) -> Result<arch::Options, Failure> {
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

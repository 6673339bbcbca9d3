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
    /// Checkpoint folder: config.json, safetensors, tokenizer files. Also hf://OWNER/MODEL[@REVISION], a
    /// model of the Hugging Face Hub: read from the Hub's cache, or over the network without a copy, by HF_TOKEN,
    /// HF_HOME, HF_HUB_CACHE, HF_ENDPOINT and HF_HUB_OFFLINE. With --to hf, a GGUF file. Or a LLaMA file from
    /// before GGUF (ggml, ggmf, ggjt), the first where there are parts.
    #[arg(value_hint = ValueHint::AnyPath, required_unless_present_any = ["list_architectures", "plan"])]
    pub src: Option<PathBuf>,
    /// Output file or folder; may hold {ftype}; a folder that ends with / is made. Without it the
    /// model names a file in the current folder.
    #[arg(value_hint = ValueHint::AnyPath, value_parser = output_parser())]
    pub out: Option<PathBuf>,
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
    pub types: Vec<TypeName>,
    /// What to make: GGUF files of a checkpoint (the default), or a checkpoint folder of a GGUF file.
    #[arg(long, value_name = "FORMAT", conflicts_with = "save_plan")]
    pub to: Option<Format>,
    /// With --to hf: bytes of weights that a file holds at most.
    #[arg(long, value_name = "BYTES", requires = "to", value_parser = clap::value_parser!(u64).range(1..))]
    pub shard_bytes: Option<u64>,
    /// List tensors, dtypes, the reasons for them and sizes; write nothing. Headers are read, no weights, but for the
    /// output and the embedding of Mamba and Whisper where a checkpoint has both.
    #[arg(long)]
    pub dry_run: bool,
    /// Replace an output that is there, and forget a run that was stopped.
    #[arg(short, long)]
    pub force: bool,
    /// Go on with the run that was stopped (Ctrl-C, kill, a crash, a power cut): what it wrote is compared with its journal,
    /// and the file has the same bytes. Without such a run it begins from the start.
    #[arg(long, conflicts_with_all = ["to", "vocab_only", "dry_run"])]
    pub resume: bool,
    /// Threads to work with; all cores by default. The bytes do not depend on it.
    #[arg(short = 'j', long, value_name = "N", value_parser = parse_threads)]
    pub threads: Option<NonZeroUsize>,
    /// Put what is fetched from the Hub into its cache, with checksums compared; else nothing of it is left.
    #[arg(long, conflicts_with_all = ["dry_run", "vocab_only", "to", "save_plan"])]
    pub keep: bool,
    /// Convert NaNs and infinities instead of refusing them.
    #[arg(long)]
    pub allow_nonfinite: bool,
    /// Write big-endian files, for s390x and the like.
    #[arg(long, conflicts_with = "to")]
    pub big_endian: bool,
    /// Round weights to this type first, as the reference's two steps do with bf16.
    #[arg(long, value_name = "DTYPE", value_parser = values::float())]
    pub via: Option<DType>,
    /// With --type f32, f16 or bf16: the type of matrices that are FP8 in the checkpoint; q8_0, which is nearly
    /// as large and runs faster than floats.
    #[arg(long, value_name = "DTYPE", value_parser = values::fp8_as(), conflicts_with_all = ["to", "vocab_only", "base", "recipe"])]
    pub fp8_as: Option<DType>,
    /// Keep the values of quantized weights (GPTQ, AWQ, MLX and others) bit for bit wherever a ggml type can hold them, in
    /// the place of the type that --type gives them; the report says which tensors and why not others. Reads all scales
    /// first.
    #[arg(long, conflicts_with_all = ["to", "vocab_only", "base", "recipe", "save_recipe"])]
    pub repack: bool,
    /// Read Mistral's own layout (params.json, consolidated*.safetensors) also where Hugging Face's copy of the
    /// weights lies beside it.
    #[arg(long, conflicts_with_all = ["to", "base"])]
    pub mistral_format: bool,
    /// Take GPTQ's zero points that are stored with all bits set for one more than the largest code, as the reference does;
    /// without this they are 0, as in the kernels that run such models.
    #[arg(long, conflicts_with_all = ["to", "base"])]
    pub unmasked_zeros: bool,
    /// The model's name, whatever the checkpoint says.
    #[arg(long, value_name = "NAME")]
    pub model_name: Option<String>,
    /// The pre-tokenizer, for a tokenizer that is not recognized.
    #[arg(long, value_name = "NAME")]
    pub pre: Option<String>,
    /// Take the checkpoint for this architecture (a name or a class of --list-architectures),
    /// whatever class its config names.
    #[arg(long, value_name = "NAME")]
    pub arch_as: Option<String>,
    /// Leave out the layers that predict more than the next token (multi-token prediction).
    #[arg(long, conflicts_with_all = ["mtp", "to", "base"])]
    pub no_mtp: bool,
    /// Write the layers that predict more than the next token alone, with embedding, last norm and output: the draft
    /// for a file made with --no-mtp. The default name begins with mtp-.
    #[arg(long, conflicts_with_all = ["to", "base"])]
    pub mtp: bool,
    /// For a draft (EAGLE 3, DFlash, DSpark): the folder of the model that it drafts for, from which tokenizer and sizes are
    /// taken. It need not have weights.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, conflicts_with_all = ["to", "base"])]
    pub target_model_dir: Option<PathBuf>,
    /// For a LoRA adapter (adapter_config.json, adapter_model.safetensors): the folder of its base
    /// model, whose config says what the matrices are; with its weights, shapes are checked. The
    /// --type is f32 (the default), f16, bf16 or q8_0.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, conflicts_with_all = ["to", "vocab_only", "via", "recipe"])]
    pub base: Option<PathBuf>,
    /// Merge a LoRA or DoRA adapter of PEFT (adapter_config.json, adapter_model.safetensors) into the weights while
    /// they are read, SCALE times (1 by default); several are merged in their order. Also hf://OWNER/ADAPTER[@REVISION],
    /// and LoRA adapters of mlx-lm (adapters.safetensors). Weights are rounded once, to their type in the file. Metadata and
    /// tokenizer stay those of the checkpoint, see --lora-tokenizer.
    #[arg(long, value_name = "ADAPTER[=SCALE]", value_hint = ValueHint::DirPath, value_parser = lora_adapter, conflicts_with_all = ["base", "to", "vocab_only"])]
    pub lora: Vec<LoraArg>,
    /// With --lora: use the adapter's tokenizer and chat template, and its embeddings if it resized the vocabulary, as
    /// `resize_token_embeddings`, `merge_and_unload` and `tokenizer.save_pretrained` would. Of several adapters the last
    /// tokenizer counts.
    #[arg(long, requires = "lora")]
    pub lora_tokenizer: bool,
    /// Write the projector only: the towers that make embeddings of images or sound, for `--mmproj` of llama.cpp.
    #[arg(long, conflicts_with_all = ["with_mmproj", "to", "vocab_only", "base", "lora", "fp8_as", "repack", "arch_as", "recipe", "save_recipe"])]
    pub mmproj: bool,
    /// Write the projector beside the model, in one run: its file has the name of the model's with `mmproj-` before it.
    #[arg(long, conflicts_with_all = ["to", "vocab_only", "base", "recipe", "save_recipe"])]
    pub with_mmproj: bool,
    /// With --with-mmproj: the file type of the projector; the first --type where that is a float or q8_0, else f16.
    #[arg(long, value_name = "TYPE", requires = "with_mmproj", value_parser = values::file_type(), hide_possible_values = true)]
    pub mmproj_type: Option<&'static Recipe>,
    /// Write metadata and tokenizer only, no weights; the folder need not have any. A --type f32,
    /// f16, bf16 or q8_0 is noted in the file; without one, that of the weights.
    #[arg(long, conflicts_with_all = ["to", "via", "recipe", "save_plan"])]
    pub vocab_only: bool,
    /// List every architecture that can be converted; with class names and a public checkpoint.
    #[arg(long, conflicts_with_all = ["src", "types", "to"])]
    pub list_architectures: bool,
    /// Put the tokenizer's own file into the metadata as well (tokenizer.huggingface.json,
    /// tokenizer.rwkv.world).
    #[arg(long)]
    pub embed_tokenizer_json: bool,
    /// Give a llama tokenizer that is there as tokenizer.json only the scores that its merges imply,
    /// so that llama.cpp cuts text as the model does; the reference gives every token the same.
    #[arg(long)]
    pub scores_from_merges: bool,
    /// Write the matrices of sentence-transformers behind a model that makes vectors of texts as well (2_Dense, 3_Dense of
    /// EmbeddingGemma).
    #[arg(long, conflicts_with = "to")]
    pub dense_modules: bool,
    /// The plan or the result as JSON on stdout.
    #[arg(long)]
    pub json: bool,
    /// Say nothing but errors.
    #[arg(short, long)]
    pub quiet: bool,
    /// Say more.
    #[arg(short, long)]
    pub verbose: bool,
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

/// What to make.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// GGUF files of a checkpoint folder.
    Gguf,
    /// A Hugging Face folder of a GGUF file.
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

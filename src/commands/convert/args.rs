//! Options of the commands of `gguf-convert`, in groups.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use gguf_toolkit::{
    DType, FileType, Prediction, Recipe,
    convert::{ArchOptions, EncodingOptions, NamingOptions, ReadingOptions},
};

use crate::commands::shared::values;

const CHECKPOINT: &str = "Checkpoint";
const FILE: &str = "Output file";

/// Options about reading a checkpoint.
#[derive(Debug, Args)]
#[command(next_help_heading = CHECKPOINT)]
pub struct SourceArgs {
    /// Read Mistral's own files if both layouts are present.
    ///
    /// These are params.json and consolidated*.safetensors. By default the Hugging Face files are preferred.
    #[arg(long, hide_short_help = true)]
    mistral_format: bool,
    /// Read all-ones GPTQ zero points as convert_hf_to_gguf.py does.
    ///
    /// convert_hf_to_gguf.py reads them as one more than the largest code. By default they are read as 0, as in the
    /// inference kernels for such models.
    #[arg(long, hide_short_help = true)]
    unmasked_zeros: bool,
}

impl SourceArgs {
    /// The options for the toolkit.
    pub fn options(&self) -> ReadingOptions {
        ReadingOptions { mistral_format: self.mistral_format, unmasked_zeros: self.unmasked_zeros }
    }
}

/// Options about downloads.
#[derive(Debug, Args)]
#[command(next_help_heading = CHECKPOINT)]
pub struct KeepArgs {
    /// Store downloads in the local Hugging Face cache.
    ///
    /// Checksums are verified. By default, downloads are not stored.
    #[arg(long, conflicts_with = "dry_run", hide_short_help = true)]
    pub keep: bool,
}

/// Options about the architecture of a checkpoint.
#[derive(Debug, Args)]
#[command(next_help_heading = CHECKPOINT)]
pub struct ArchArgs {
    /// Treat the checkpoint as this architecture.
    ///
    /// NAME is a name or class that `gguf-convert architectures` lists.
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    pub arch_as: Option<String>,
    /// Set the target model of a draft model.
    ///
    /// DIR is the folder of the target model, from which EAGLE 3, DFlash and DSpark draft models take their tokenizer
    /// and sizes. Its weights are not needed.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, hide_short_help = true)]
    pub target_model_dir: Option<PathBuf>,
    /// Leave out the multi-token prediction layers.
    #[arg(long, conflicts_with = "mtp", help_heading = FILE, hide_short_help = true)]
    pub no_mtp: bool,
    /// Write only the multi-token prediction layers, as a draft model.
    ///
    /// Embedding, final norm and output matrix are included. Use the result as the draft model for a file made with
    /// --no-mtp. The default file name starts with `mtp-`.
    #[arg(long, help_heading = FILE, hide_short_help = true)]
    pub mtp: bool,
    /// Include the dense layers of a sentence-transformers model.
    ///
    /// In EmbeddingGemma, for example, these are 2_Dense and 3_Dense.
    #[arg(long, help_heading = FILE, hide_short_help = true)]
    dense_modules: bool,
}

impl ArchArgs {
    /// The options for the toolkit.
    pub fn options(&self) -> ArchOptions {
        ArchOptions {
            arch_as: self.arch_as.clone(),
            custom: None,
            target_model_dir: self.target_model_dir.clone(),
            prediction: match (self.mtp, self.no_mtp) {
                (true, _) => Prediction::Only,
                (_, true) => Prediction::Without,
                _ => Prediction::With,
            },
            dense_modules: self.dense_modules,
        }
    }
}

/// Options about name and tokenizer.
#[derive(Debug, Args)]
#[command(next_help_heading = FILE)]
pub struct NamingArgs {
    /// Set the name of the model.
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    pub model_name: Option<String>,
    /// Set the pre-tokenizer, if it is not recognized.
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    pre: Option<String>,
    /// Embed the original tokenizer file in the metadata.
    ///
    /// The key is tokenizer.huggingface.json or tokenizer.rwkv.world.
    #[arg(long, hide_short_help = true)]
    embed_tokenizer_json: bool,
    /// Give all tokens the same score, like convert_hf_to_gguf.py.
    ///
    /// For a `llama` tokenizer without tokenizer.model. Without this option, scores are derived from the merges of
    /// tokenizer.json, and llama.cpp tokenizes like the original tokenizer.
    #[arg(long, hide_short_help = true)]
    equal_scores: bool,
}

impl NamingArgs {
    /// The options for the toolkit.
    pub fn options(&self) -> NamingOptions {
        NamingOptions {
            model_name: self.model_name.clone(),
            pre: self.pre.clone(),
            embed_tokenizer_json: self.embed_tokenizer_json,
            equal_scores: self.equal_scores,
        }
    }
}

/// Options about encoding weights.
#[derive(Debug, Args)]
#[command(next_help_heading = FILE)]
pub struct EncodingArgs {
    /// Round weights to this type before quantizing them.
    ///
    /// `bf16` gives the result of convert_hf_to_gguf.py --outtype bf16 followed by llama-quantize.
    #[arg(long, value_name = "DTYPE", value_parser = values::float(), hide_possible_values = true, hide_short_help = true)]
    pub via: Option<DType>,
    #[command(flatten)]
    pub plain: PlainArgs,
}

impl EncodingArgs {
    /// The options for the toolkit.
    pub fn options(&self) -> EncodingOptions {
        let PlainArgs { allow_nonfinite, big_endian } = self.plain;
        EncodingOptions { via: self.via, allow_nonfinite, big_endian }
    }
}

/// Options about values of weights.
#[derive(Debug, Args)]
#[command(next_help_heading = FILE)]
pub struct PlainArgs {
    /// Convert NaNs and infinities instead of failing.
    #[arg(long, hide_short_help = true)]
    pub allow_nonfinite: bool,
    /// Write big-endian files, for example for s390x.
    #[arg(long, hide_short_help = true)]
    pub big_endian: bool,
}

/// The option `--type`.
#[derive(Debug, Args)]
pub struct TypeArgs {
    /// Set the output type, for example bf16.
    ///
    /// A comma-separated list writes several files in one pass. `auto` is bf16 or f16, depending on the dtype of the
    /// first matrix. The end of `gguf-convert --help` lists the types.
    #[arg(
        short = 't',
        long = "type",
        value_name = "TYPE",
        value_delimiter = ',',
        value_parser = values::type_name(),
        hide_possible_values = true
    )]
    pub types: Vec<FileType>,
}

impl TypeArgs {
    /// Recipes of the types, without `auto`.
    pub fn recipes(&self) -> Vec<&'static Recipe> {
        self.types.iter().filter_map(|file_type| file_type.recipe()).collect()
    }
}

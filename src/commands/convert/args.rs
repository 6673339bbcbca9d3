//! Options of the commands of `gguf-convert`, in groups.

use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use gguf_checkpoint::{Checkpoint, Folder};
use gguf_conversion::{NonFinite, recipes::Recipe};
use gguf_toolkit::{conversion_run::failure, layout_notes::float_of, settings::OtherSettings};
use gguf_types::DType;

use crate::{
    commands::shared::{
        hub,
        tensor_args::byte_order,
        values::{self, TypeName},
    },
    failure::Failure,
    ui::Ui,
};

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
    /// The folder, read by these options.
    pub fn apply(&self, folder: &Folder) -> Folder {
        folder.clone().mistral_format(self.mistral_format).unmasked_zeros(self.unmasked_zeros)
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
    /// Options for resolving a checkpoint; reads the folder of a draft's target.
    ///
    /// # Errors
    /// A target that cannot be read.
    pub fn options(&self, naming: &NamingArgs, ui: &Ui) -> Result<gguf_models::Options, Failure> {
        let target = self.target_model_dir.as_deref().map(|dir| {
            let wanted = hub::Wanted { weights: false, keep: false, out: None };
            let input = hub::input(dir, wanted, ui)?;
            let target =
                gguf_conversion::target(input.folder.clone()).map_err(|error| failure(dir, error))?;
            input.finish(ui)?;
            Ok::<_, Failure>(std::sync::Arc::new(target))
        });
        Ok(gguf_models::Options {
            target: target.transpose()?,
            prediction: match (self.mtp, self.no_mtp) {
                (true, _) => gguf_models::Prediction::Only,
                (_, true) => gguf_models::Prediction::Without,
                _ => gguf_models::Prediction::With,
            },
            dense_modules: self.dense_modules,
            arch_as: self.arch_as.clone(),
            ..naming.options()
        })
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
    /// Derive token scores from the merges of tokenizer.json.
    ///
    /// For a `llama` tokenizer without tokenizer.model. With these scores, llama.cpp tokenizes like the original
    /// tokenizer. convert_hf_to_gguf.py gives all tokens the same score.
    #[arg(long, hide_short_help = true)]
    scores_from_merges: bool,
}

impl NamingArgs {
    /// Options for resolving a checkpoint.
    pub fn options(&self) -> gguf_models::Options {
        gguf_models::Options {
            model_name: self.model_name.clone(),
            pre: self.pre.clone(),
            embed_tokenizer_json: self.embed_tokenizer_json,
            scores_from_merges: self.scores_from_merges,
            ..gguf_models::Options::default()
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
    /// The same as settings.
    pub fn settings(&self) -> OtherSettings {
        OtherSettings {
            allow_nonfinite: self.plain.allow_nonfinite,
            via: self.via,
            endian: byte_order(self.plain.big_endian),
            ..OtherSettings::default()
        }
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

impl PlainArgs {
    /// Treatment of NaNs and infinities.
    pub fn nonfinite(&self) -> NonFinite {
        if self.allow_nonfinite { NonFinite::Allow } else { NonFinite::Refuse }
    }
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
    pub types: Vec<TypeName>,
}

impl TypeArgs {
    /// The types that are named.
    pub fn recipes(&self) -> Vec<&'static Recipe> {
        let named = |name: &TypeName| match name {
            TypeName::Of(recipe) => Some(*recipe),
            TypeName::Auto => None,
        };
        self.types.iter().filter_map(named).collect()
    }

    /// The types to make of a checkpoint.
    ///
    /// # Errors
    /// None are known.
    pub fn recipes_of(&self, checkpoint: &Checkpoint) -> Result<Vec<&'static Recipe>, Failure> {
        let of = |name: &TypeName| match name {
            TypeName::Of(recipe) => Ok(*recipe),
            TypeName::Auto => Recipe::from_name(float_of(checkpoint)).map_err(Failure::new),
        };
        self.types.iter().map(of).collect()
    }

    /// Checks that a type is given. Inputs that can never be converted are reported first.
    ///
    /// # Errors
    /// A missing type.
    pub fn check(&self, src: &Path, out: Option<&Path>, folder: &Folder) -> Result<(), Failure> {
        if !self.types.is_empty() {
            return Ok(());
        }
        gguf_checkpoint::open(folder.clone())
            .map_err(|error| failure(src, gguf_conversion::Error::Source(error)))?;
        // The second argument of `gguf-quantize` may be a type, but here it is the output.
        let second = out.and_then(Path::to_str).filter(|out| Recipe::from_name(out).is_ok());
        let hint = second
            .map(|name| format!("`{name}` was treated as the output; to set the type, use `--type {name}`"));
        Err(Failure::usage("missing --type, for example q4_k_m or bf16")
            .hint(hint)
            .hint(["`--type auto` keeps the type of a 16-bit checkpoint; `--help` lists the types"]))
    }
}

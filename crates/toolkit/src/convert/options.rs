//! Groups of options that conversions share.

use std::{
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::Arc,
};

use gguf_checkpoint::{Checkpoint, Folder};
use gguf_container::Endian;
use gguf_conversion::{
    NonFinite, RunOptions,
    recipes::{FileType as FileTypeId, Recipe},
};
use gguf_layout::{Arch, Families, Prediction};
use gguf_quant::Level;
use gguf_types::DType;
use serde::{Deserialize, Serialize};

use crate::{
    by_name::{Named, find_in, name_in},
    cause::Cause,
    error::Error,
    events::Events,
    failure::failure,
    file_type::FileType,
    hub::{self, HubOptions},
    layout_notes::float_of,
    settings::OtherSettings,
};

/// Output of a conversion.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OutputOptions {
    /// File or folder; `{ftype}` in its name stands for the file type. A path that ends with a separator is a folder,
    /// which is created. Default: the current folder, with a file name from the model.
    #[serde(with = "crate::path_json::optional")]
    pub out: Option<PathBuf>,
    /// Overwrite existing files, and discard an interrupted run.
    pub force: bool,
    /// Resume an interrupted run, if there is one. Implies `resumable`.
    pub resume: bool,
    /// Keep what an interrupted run has written, so that it can be resumed. By default it is removed.
    pub resumable: bool,
    /// Number of threads. Default: one per core. The output does not depend on it.
    pub threads: Option<NonZeroUsize>,
    /// CPU level of the kernels. Default: the best one of this machine. The output does not depend on it.
    #[serde(with = "crate::by_name::optional")]
    pub level: Option<Level>,
}

impl OutputOptions {
    /// The options of the conversion engine.
    pub fn run_options(&self, nonfinite: NonFinite) -> RunOptions {
        let options = RunOptions::default().threads(self.threads).nonfinite(nonfinite);
        match self.level {
            Some(level) => options.level(level),
            None => options,
        }
    }

    /// The output whose disk can hold temporary files; none for a dry run, which leaves nothing on the disk.
    pub(crate) fn storage(&self, dry_run: bool) -> Option<&Path> {
        (!dry_run).then(|| self.out.as_deref().unwrap_or(Path::new("")))
    }
}

/// Interpretation of a checkpoint's files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args), command(next_help_heading = "Checkpoint"))]
#[serde(default, deny_unknown_fields)]
pub struct ReadingOptions {
    /// Read Mistral's own files if both layouts are present.
    ///
    /// These are params.json and consolidated*.safetensors. By default the Hugging Face files are preferred.
    #[cfg_attr(feature = "clap", arg(long, hide_short_help = true))]
    pub mistral_format: bool,
    /// Read all-ones GPTQ zero points as convert_hf_to_gguf.py does.
    ///
    /// convert_hf_to_gguf.py reads them as one more than the largest code. By default they are read as 0, as in the
    /// inference kernels for such models.
    #[cfg_attr(feature = "clap", arg(long, hide_short_help = true))]
    pub unmasked_zeros: bool,
}

impl ReadingOptions {
    /// The folder, read by these options.
    pub fn apply(self, folder: &Folder) -> Folder {
        folder.clone().mistral_format(self.mistral_format).unmasked_zeros(self.unmasked_zeros)
    }
}

/// Architecture of a checkpoint.
#[derive(Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args), command(next_help_heading = "Checkpoint"))]
#[serde(default, deny_unknown_fields)]
pub struct ArchOptions {
    /// Treat the checkpoint as this architecture.
    ///
    /// NAME is a name or class that `gguf-convert architectures` lists.
    #[cfg_attr(feature = "clap", arg(long, value_name = "NAME", hide_short_help = true))]
    pub arch_as: Option<String>,
    /// Architecture that need not be one of [`architectures`](crate::architectures). It has no serialized form.
    ///
    /// # Examples
    /// ```
    /// use gguf_toolkit::{Convert, FileType, architecture::{Arch, Class, DECODER, rules, vocab::Route}};
    ///
    /// static MINE: Arch = {
    ///     let mut arch = DECODER;
    ///     arch.name = "mine";
    ///     arch.classes = const { &[Class::new("MineForCausalLM")] };
    ///     arch.tensors = &[rules::DECODER_ENDS, rules::PRE_NORMS, rules::ATTENTION, rules::GATED_MLP];
    ///     arch.vocab = Route::GPT2;
    ///     arch
    /// };
    /// let mut convert = Convert::new("my-model", [FileType::BF16]);
    /// convert.arch.custom = Some(&MINE);
    /// ```
    #[serde(skip)]
    #[cfg_attr(feature = "clap", arg(skip))]
    pub custom: Option<&'static Arch>,
    /// Set the target model of a draft model.
    ///
    /// DIR is the folder of the target model, from which EAGLE 3, DFlash and DSpark draft models take their tokenizer
    /// and sizes. Its weights are not needed.
    #[cfg_attr(feature = "clap", arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath, hide_short_help = true))]
    #[serde(with = "crate::path_json::optional")]
    pub target_model_dir: Option<PathBuf>,
    /// Treatment of the multi-token prediction layers.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(with = "crate::by_name::single")]
    pub prediction: MtpLayers,
    /// Include the dense layers of a sentence-transformers model.
    ///
    /// In EmbeddingGemma, for example, these are 2_Dense and 3_Dense.
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Output file", hide_short_help = true))]
    pub dense_modules: bool,
}

impl std::fmt::Debug for ArchOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ArchOptions { arch_as, custom, target_model_dir, prediction, dense_modules } = self;
        f.debug_struct("ArchOptions")
            .field("arch_as", arch_as)
            .field("custom", &custom.map(|arch| arch.name))
            .field("target_model_dir", target_model_dir)
            .field("prediction", prediction)
            .field("dense_modules", dense_modules)
            .finish()
    }
}

impl ArchOptions {
    /// Options for resolving a checkpoint. Reads the folder of a draft's target.
    ///
    /// # Errors
    /// A target that cannot be read.
    pub(crate) fn resolving(
        &self,
        naming: &NamingOptions,
        hub: &HubOptions,
        events: &dyn Events,
    ) -> Result<gguf_layout::Options, Error> {
        let target = self.target_model_dir.as_deref().map(|dir| {
            let wanted = hub::Wanted { weights: false, keep: false, out: None };
            let input = hub::input(dir, wanted, hub, events)?;
            let target =
                gguf_conversion::target(input.folder.clone()).map_err(|error| failure(dir, error))?;
            input.finish(events)?;
            Ok::<_, Error>(Arc::new(target))
        });
        Ok(gguf_layout::Options {
            target: target.transpose()?,
            prediction: self.prediction.into(),
            dense_modules: self.dense_modules,
            arch_as: self.arch_as.clone(),
            ..naming.resolving()
        })
    }
}

/// Families of image and video models.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[serde(default, deny_unknown_fields)]
pub struct FamilyOptions {
    /// Read families of image and video models from a file.
    ///
    /// FILE is TOML with a table `[[model]]` for each model: its architecture, the tensors that identify it and those that keep their
    /// precision. Its models come before the built-in ones.
    #[cfg_attr(feature = "clap", arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath, hide_short_help = true))]
    #[serde(with = "crate::path_json::optional")]
    pub family: Option<PathBuf>,
}

impl FamilyOptions {
    /// The built-in families and those of the file.
    ///
    /// # Errors
    /// A file that cannot be read or is not a file of families.
    pub(crate) fn read(&self) -> Result<Families, Error> {
        let Some(path) = &self.family else { return Ok(gguf_models::FAMILIES) };
        let text = std::fs::read_to_string(path).map_err(|error| Error::at(path, error))?;
        gguf_models::with_diffusion(&text).map_err(|error| Error::at(path, error.0))
    }
}

/// Treatment of the multi-token prediction layers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum MtpLayers {
    /// They are written with the model.
    #[default]
    With,
    /// They are left out.
    Without,
    /// Only they are written, as a draft model.
    Only,
}

/// Names of [`MtpLayers`].
const PREDICTIONS: [(&str, MtpLayers); 3] =
    [("with", MtpLayers::With), ("without", MtpLayers::Without), ("only", MtpLayers::Only)];

impl Named for MtpLayers {
    fn name(&self) -> String {
        name_in(&PREDICTIONS, self)
    }

    fn from_name(name: &str) -> Result<MtpLayers, String> {
        find_in(&PREDICTIONS, name)
    }
}

/// The arguments of [`MtpLayers`].
#[cfg(feature = "clap")]
#[derive(clap::Args)]
#[command(next_help_heading = "Output file")]
struct MtpArgs {
    /// Leave out the multi-token prediction layers.
    #[arg(long, conflicts_with = "mtp", hide_short_help = true)]
    no_mtp: bool,
    /// Write only the multi-token prediction layers, as a draft model.
    ///
    /// Embedding, final norm and output matrix are included. Use the result as the draft model for a file made with
    /// --no-mtp. The default file name starts with `mtp-`.
    #[arg(long, hide_short_help = true)]
    mtp: bool,
}

#[cfg(feature = "clap")]
impl From<MtpArgs> for MtpLayers {
    fn from(args: MtpArgs) -> MtpLayers {
        match args {
            MtpArgs { mtp: true, .. } => MtpLayers::Only,
            MtpArgs { no_mtp: true, .. } => MtpLayers::Without,
            _ => MtpLayers::With,
        }
    }
}

#[cfg(feature = "clap")]
crate::arguments::value_of_flags!(MtpLayers, MtpArgs);

impl From<MtpLayers> for Prediction {
    fn from(layers: MtpLayers) -> Prediction {
        match layers {
            MtpLayers::With => Prediction::With,
            MtpLayers::Without => Prediction::Without,
            MtpLayers::Only => Prediction::Only,
        }
    }
}

/// Name and tokenizer of a model.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args), command(next_help_heading = "Output file"))]
#[serde(default, deny_unknown_fields)]
pub struct NamingOptions {
    /// Set the name of the model.
    #[cfg_attr(feature = "clap", arg(long, value_name = "NAME", hide_short_help = true))]
    pub model_name: Option<String>,
    /// Set the pre-tokenizer, if it is not recognized.
    #[cfg_attr(feature = "clap", arg(long, value_name = "NAME", hide_short_help = true))]
    pub pre: Option<String>,
    /// Embed the original tokenizer file in the metadata.
    ///
    /// The key is tokenizer.huggingface.json or tokenizer.rwkv.world.
    #[cfg_attr(feature = "clap", arg(long, hide_short_help = true))]
    pub embed_tokenizer_json: bool,
    /// Give all tokens the same score, like convert_hf_to_gguf.py.
    ///
    /// For a `llama` tokenizer without tokenizer.model. Without this option, scores are derived from the merges of
    /// tokenizer.json, and llama.cpp tokenizes like the original tokenizer.
    #[cfg_attr(feature = "clap", arg(long, hide_short_help = true))]
    pub equal_scores: bool,
}

impl NamingOptions {
    /// Options for resolving a checkpoint.
    pub(crate) fn resolving(&self) -> gguf_layout::Options {
        gguf_layout::Options {
            pre: self.pre.clone(),
            embed_tokenizer_json: self.embed_tokenizer_json,
            equal_scores: self.equal_scores,
            ..gguf_layout::Options::new(gguf_models::FAMILIES).named(self.model_name.clone())
        }
    }
}

/// Encoding of weights.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args), command(next_help_heading = "Output file"))]
#[serde(default, deny_unknown_fields)]
pub struct EncodingOptions {
    /// Round weights to this type before quantizing them.
    ///
    /// `bf16` gives the result of convert_hf_to_gguf.py --outtype bf16 followed by llama-quantize.
    #[cfg_attr(feature = "clap", arg(long, value_name = "DTYPE", value_parser = crate::arguments::float(), hide_possible_values = true, hide_short_help = true))]
    #[serde(with = "crate::by_name::optional")]
    pub via: Option<DType>,
    /// Values of weights and their byte order.
    #[cfg_attr(feature = "clap", command(flatten))]
    pub plain: PlainOptions,
}

/// Values of weights and their byte order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args), command(next_help_heading = "Output file"))]
#[serde(default, deny_unknown_fields)]
pub struct PlainOptions {
    /// Convert NaNs and infinities instead of failing.
    #[cfg_attr(feature = "clap", arg(long, hide_short_help = true))]
    pub allow_nonfinite: bool,
    /// Write big-endian files, for example for s390x.
    #[cfg_attr(feature = "clap", arg(long, hide_short_help = true))]
    pub big_endian: bool,
}

impl PlainOptions {
    /// The byte order of the output.
    pub(crate) fn endian(self) -> Endian {
        if self.big_endian { Endian::Big } else { Endian::Little }
    }

    /// Treatment of NaNs and infinities.
    pub(crate) fn nonfinite(self) -> NonFinite {
        if self.allow_nonfinite { NonFinite::Allow } else { NonFinite::Refuse }
    }

    /// The same as settings.
    pub(crate) fn settings(self) -> OtherSettings {
        let PlainOptions { allow_nonfinite, .. } = self;
        OtherSettings { allow_nonfinite, endian: self.endian(), ..OtherSettings::default() }
    }
}

impl EncodingOptions {
    /// The same as settings.
    pub(crate) fn settings(self) -> OtherSettings {
        OtherSettings { via: self.via, ..self.plain.settings() }
    }
}

/// The recipes of `types` for a checkpoint.
///
/// # Errors
/// None are known.
pub(crate) fn recipes_of(types: &[FileType], checkpoint: &Checkpoint) -> Result<Vec<&'static Recipe>, Error> {
    types.iter().map(|file_type| recipe_of(*file_type, checkpoint)).collect()
}

/// The recipe of one type for a checkpoint.
///
/// # Errors
/// None are known.
pub(crate) fn recipe_of(file_type: FileType, checkpoint: &Checkpoint) -> Result<&'static Recipe, Error> {
    match file_type {
        FileType::Named(recipe) => Ok(recipe),
        FileType::Auto => Recipe::from_name(float_of(checkpoint)).map_err(Error::new),
    }
}

/// The recipes of `types` for an input that is not a checkpoint.
///
/// # Errors
/// [`FileType::Auto`].
pub(crate) fn named_recipes(types: &[FileType]) -> Result<Vec<&'static Recipe>, Error> {
    types.iter().map(named_recipe).collect()
}

/// The recipe of one type for an input that is not a checkpoint.
///
/// # Errors
/// [`FileType::Auto`].
pub(crate) fn named_recipe(file_type: &FileType) -> Result<&'static Recipe, Error> {
    file_type.recipe().ok_or_else(|| Error::usage("the file type `auto` needs a checkpoint"))
}

/// Checks that a type is given. Inputs that can never be converted are reported first.
///
/// # Errors
/// [`Cause::NoType`].
pub(crate) fn require_types(types: &[FileType], source: &Path, folder: &Folder) -> Result<(), Error> {
    if !types.is_empty() {
        return Ok(());
    }
    gguf_checkpoint::open_text(folder.clone())
        .map_err(|error| failure(source, gguf_conversion::Error::Source(error)))?;
    Err(Error::usage(Cause::NoType))
}

/// True if the reference's converter writes files of this type itself.
pub(crate) fn is_of_converter(recipe: &Recipe) -> bool {
    recipe.default.is_float() || recipe.file_type == FileTypeId::Q8_0
}

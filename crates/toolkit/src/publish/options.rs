//! Options of a publication.

use std::{
    num::NonZeroUsize,
    path::{Path, PathBuf},
};

use gguf_conversion::recipes::Recipe;
use gguf_quant::Level;
use gguf_runtime::{Activations, Options};
use serde::{Deserialize, Serialize};

use super::ladder::Ladder;
use crate::{calibration::CalibrationOptions, error::Error, eval_model::options};
use gguf_types::words;

/// Value of [`PublishOptions::chat_template`] for the template of the source.
pub const SOURCE_TEMPLATE: &str = "source";

/// Default limit of the chunks that are measured.
pub const CHUNKS: u32 = 40;

/// Default number of tokens of a chunk.
pub const CONTEXT: u32 = 512;

/// Default limit of a shard in bytes.
pub const SPLIT_MAX_SIZE: u64 = 48_000_000_000;

/// Options of a publication.
///
/// Options that a call leaves open keep their values of the last run.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[serde(default, deny_unknown_fields)]
pub struct PublishOptions {
    /// Checkpoint folder, address of the Hub, or GGUF file.
    #[cfg_attr(feature = "clap", arg(skip))]
    #[serde(with = "crate::path_json::one")]
    pub src: PathBuf,
    /// Folder to create or update.
    #[cfg_attr(feature = "clap", arg(skip))]
    #[serde(with = "crate::path_json::one")]
    pub dir: PathBuf,
    /// Set the output type, for example bf16.
    ///
    /// A comma-separated list writes several files. The types of earlier runs are kept.
    #[cfg_attr(feature = "clap", arg(short = 't', long = "type", value_name = "TYPE", value_delimiter = ',', value_parser = <&Recipe as crate::by_name::Named>::from_name, hide_possible_values = true))]
    #[serde(with = "crate::by_name::list")]
    pub types: Vec<&'static Recipe>,
    /// Write a predefined set of types: small or full.
    ///
    /// small (the default) is q3_k_m, q4_k_m, q5_k_m, q6_k and q8_0; full has twelve types from iq2_xxs to q8_0.
    #[cfg_attr(feature = "clap", arg(long, conflicts_with = "types", value_parser = super::ladder::ladder(), hide_possible_values = true))]
    pub ladder: Option<Ladder>,
    /// Write the largest type that fits in SIZE.
    ///
    /// SIZE is the memory available for weights and context. A comma-separated list such as 8GB,16GB writes a file for
    /// each size.
    #[cfg_attr(feature = "clap", arg(long, value_name = "SIZE", value_delimiter = ',', value_parser = crate::sizes::parse_size, conflicts_with_all = ["types", "ladder"]))]
    pub fit: Vec<u64>,
    /// Include the memory of a context of N tokens in --fit.
    ///
    /// The model card also lists the memory for this context length. Default: 8192, or less if the model was
    /// trained for less.
    #[cfg_attr(feature = "clap", arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1 << 32), hide_short_help = true))]
    pub fit_context: Option<u64>,
    /// Optimize types and rounding on these texts.
    ///
    /// Each quantized file is made like `gguf-quantize BASE OUT TYPE --calibrate FILE`. `builtin` instead of a file, or no
    /// value, is a built-in text. Later runs calibrate on the same texts, unless --no-calibrate is given.
    #[cfg_attr(feature = "clap", arg(long, value_name = "FILE", num_args = 0.., default_missing_value = crate::calibration_text::BUILT_IN, value_hint = clap::ValueHint::FilePath))]
    #[serde(with = "crate::path_json::many")]
    pub calibrate: Vec<PathBuf>,
    /// Use N tokens of the calibration texts in total.
    ///
    /// Tokens are taken from each text in turn. Default: 16384.
    #[cfg_attr(feature = "clap", arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2048..), hide_short_help = true))]
    pub calibration_tokens: Option<u32>,
    /// Do not calibrate, although an earlier run did.
    #[cfg_attr(feature = "clap", arg(long, conflicts_with_all = ["calibrate", "calibration_tokens", "target_size"], hide_short_help = true))]
    pub no_calibrate: bool,
    /// Choose types so that the file is no larger than SIZE.
    ///
    /// This file is published in addition to those of the types, and requires --calibrate. SIZE is in bytes or has a unit: K, M, G or KB, MB, GB (powers of 1000), or KiB, MiB, GiB. A comma-separated list
    /// adds a file for each size. The size is part of the file name.
    #[cfg_attr(feature = "clap", arg(long, value_name = "SIZE", value_delimiter = ',', value_parser = crate::sizes::parse_size, hide_short_help = true))]
    pub target_size: Vec<u64>,
    /// Remove files of earlier runs, by their type in the card.
    ///
    /// A comma-separated list such as q3_k_m,Q4_K_M-5GB removes several files.
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "TYPE", value_delimiter = ',', hide_short_help = true)
    )]
    pub remove: Vec<String>,
    /// Set the chat template to the contents of FILE.
    ///
    /// Later runs keep this text, even if FILE changes. `source` instead of a file restores the template of the source.
    /// Files with other metadata get new headers; weights and measurements are kept.
    #[cfg_attr(feature = "clap", arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath, hide_short_help = true))]
    #[serde(with = "crate::path_json::optional")]
    pub chat_template: Option<PathBuf>,
    /// Set the name of the model.
    ///
    /// The output file and the metadata key general.name are named after it.
    #[cfg_attr(feature = "clap", arg(long, value_name = "NAME", hide_short_help = true))]
    pub model_name: Option<String>,
    /// Also publish this draft model (repeatable).
    ///
    /// DIR is the checkpoint folder of an EAGLE 3, DFlash or DSpark draft model.
    #[cfg_attr(feature = "clap", arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath, hide_short_help = true))]
    #[serde(with = "crate::path_json::many")]
    pub draft: Vec<PathBuf>,
    /// Set the type of the unquantized GGUF file that the others are made from.
    ///
    /// Default: the type of the checkpoint if it is f32, f16 or bf16, otherwise bf16.
    #[cfg_attr(feature = "clap", arg(long, value_name = "TYPE", value_parser = <&Recipe as crate::by_name::Named>::from_name, hide_possible_values = true, hide_short_help = true))]
    #[serde(with = "crate::by_name::optional")]
    pub base_type: Option<&'static Recipe>,
    /// Collect the importance matrix from these texts.
    ///
    /// A .jsonl file holds chats, which are rendered with the chat template of the model. `builtin` is the built-in text of
    /// --calibrate. Default: the texts of --calibrate, or a smaller built-in text.
    #[cfg_attr(feature = "clap", arg(long, value_name = "FILE", num_args = 1.., value_hint = clap::ValueHint::FilePath))]
    #[serde(with = "crate::path_json::many")]
    pub imatrix_text: Vec<PathBuf>,
    /// Read at most N chunks of --imatrix-text.
    #[cfg_attr(feature = "clap", arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), hide_short_help = true))]
    pub imatrix_chunks: Option<u32>,
    /// Do not use an importance matrix.
    #[cfg_attr(feature = "clap", arg(long, conflicts_with_all = ["imatrix_text", "imatrix_chunks", "calibrate"], hide_short_help = true))]
    pub no_imatrix: bool,
    /// Measure the output on these texts.
    ///
    /// Use texts other than those of --imatrix-text. Default: a small built-in text.
    #[cfg_attr(feature = "clap", arg(long, value_name = "FILE", num_args = 1.., value_hint = clap::ValueHint::FilePath))]
    #[serde(with = "crate::path_json::many")]
    pub eval_text: Vec<PathBuf>,
    /// Read at most N chunks of the text.
    #[cfg_attr(feature = "clap", arg(long, value_name = "N", default_value = "40", value_parser = clap::value_parser!(u32).range(1..)))]
    pub chunks: Option<u32>,
    /// Set the context length, in tokens.
    ///
    /// The text is cut into chunks of this length.
    #[cfg_attr(feature = "clap", arg(short, long, value_name = "N", default_value = "512", value_parser = clap::value_parser!(u32).range(4..), hide_short_help = true))]
    pub context: Option<u32>,
    /// Omit files that are both larger and worse than another file.
    #[cfg_attr(feature = "clap", arg(long, hide_short_help = true))]
    pub drop_dominated: bool,
    /// Limit each shard to SIZE of tensor data.
    ///
    /// The Hub accepts files of up to 50 GB.
    #[cfg_attr(feature = "clap", arg(long, value_name = "SIZE", default_value = "48GB", value_parser = crate::sizes::parse_size, hide_short_help = true))]
    pub split_max_size: Option<u64>,
    /// Name the base model in the card, as OWNER/NAME.
    ///
    /// Default: the repository of an hf:// source.
    #[cfg_attr(feature = "clap", arg(long, value_name = "REPO", hide_short_help = true))]
    pub base_model: Option<String>,
    /// Name the published repository in the commands of the card, as OWNER/NAME.
    #[cfg_attr(feature = "clap", arg(long, value_name = "REPO", hide_short_help = true))]
    pub repo: Option<String>,
    /// Name the publisher in the card.
    #[cfg_attr(feature = "clap", arg(long, value_name = "NAME", hide_short_help = true))]
    pub quantized_by: Option<String>,
    /// Add the YAML keys of FILE to the front matter of the card.
    ///
    /// FILE is a YAML file or a card, for example with `tags`, `datasets` and `language`. Its keys replace those of
    /// gguf-publish. Later runs keep them, like the keys that you add or change in README.md.
    #[cfg_attr(feature = "clap", arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath, hide_short_help = true))]
    #[serde(with = "crate::path_json::optional")]
    pub card_metadata: Option<PathBuf>,
    /// Remove the types of earlier runs that are not requested again.
    #[cfg_attr(feature = "clap", arg(long, hide_short_help = true))]
    pub replace_types: bool,
    /// Overwrite existing outputs.
    ///
    /// Needed if the folder contains files that gguf-publish did not write, or that were changed since the last run.
    #[cfg_attr(feature = "clap", arg(long))]
    pub force: bool,
    /// Number of threads. Default: one per core.
    #[cfg_attr(feature = "clap", arg(skip))]
    pub threads: Option<NonZeroUsize>,
    /// Precision of activations. Default: that of the last run, or f32.
    #[cfg_attr(feature = "clap", arg(skip))]
    pub activations: Option<Activations>,
    /// CPU level of the kernels. Default: the best one of this machine.
    #[cfg_attr(feature = "clap", arg(skip))]
    #[serde(with = "crate::by_name::optional")]
    pub level: Option<Level>,
    /// File of the program, whose checksum identifies the build; only the same build resumes an interrupted run.
    #[cfg_attr(feature = "clap", arg(skip))]
    #[serde(with = "crate::path_json::optional")]
    pub executable: Option<PathBuf>,
}

impl PublishOptions {
    /// The default options for a source and a folder.
    pub fn new(src: impl Into<PathBuf>, dir: impl Into<PathBuf>) -> PublishOptions {
        PublishOptions { src: src.into(), dir: dir.into(), ..PublishOptions::default() }
    }

    /// True if the source is a GGUF file.
    pub(super) fn has_gguf_source(&self) -> bool {
        self.src.extension().is_some_and(|extension| extension == "gguf") && self.src.is_file()
    }

    /// Refuses options that contradict each other or do not fit the source. `given` are those of this call.
    ///
    /// # Errors
    /// The first such option.
    pub fn check(&self, given: &PublishOptions) -> Result<(), Error> {
        let src = self.src.display();
        if !self.target_size.is_empty() && self.calibrate.is_empty() {
            return Err(Error::usage(words!("[-target-size] needs calibration texts"))
                .hint([words!("pass them with [-calibrate]")]));
        }
        if self.no_imatrix && !self.calibrate.is_empty() {
            return Err(Error::usage(words!("[-no-imatrix] cannot be used with [-calibrate]")));
        }
        if self.has_gguf_source() && given.base_type.is_some() {
            let hint = words!("to use a base of another type, run `[gguf-quantize {} BASE.gguf TYPE]`", src);
            let message = words!("[-base-type] needs a checkpoint as input; a GGUF file is used as the base");
            return Err(Error::usage(message).hint([hint]));
        }
        if self.has_gguf_source() && !self.draft.is_empty() {
            return Err(Error::usage(words!(
                "[-draft] needs the checkpoint of the target model, not a GGUF file"
            )));
        }
        Ok(())
    }

    /// Texts and drafts, of which the folder has no copy.
    pub fn files(&mut self) -> impl Iterator<Item = &mut Vec<PathBuf>> {
        [&mut self.calibrate, &mut self.draft, &mut self.imatrix_text, &mut self.eval_text].into_iter()
    }

    /// Limit of the chunks of the text that is measured.
    pub fn chunks(&self) -> usize {
        self.chunks.unwrap_or(CHUNKS) as usize
    }

    /// Options of the calibration of each file; none without texts.
    pub fn calibration(&self) -> Option<CalibrationOptions> {
        let default = CalibrationOptions::default();
        (!self.calibrate.is_empty()).then(|| CalibrationOptions {
            calibrate: self.calibrate.clone(),
            calibration_tokens: self.calibration_tokens.unwrap_or(default.calibration_tokens),
            // All files are measured later, on another text.
            no_verify: true,
            ..default
        })
    }

    /// Precision of activations.
    pub fn activations(&self) -> Activations {
        self.activations.unwrap_or_default()
    }

    /// Limit of a shard in bytes of tensor data.
    pub fn split_max_size(&self) -> u64 {
        self.split_max_size.unwrap_or(SPLIT_MAX_SIZE)
    }

    /// File with the chat template, unless the template of the source is wanted.
    pub fn template_file(&self) -> Option<&Path> {
        self.chat_template.as_deref().filter(|path| *path != Path::new(SOURCE_TEMPLATE))
    }

    /// Options for running models.
    pub fn run(&self) -> Options {
        options(self.threads, self.activations())
    }

    /// Types that are named, each once, or those of a ladder.
    ///
    /// # Errors
    /// None, unless a ladder holds an invalid name.
    pub fn named_types(&self) -> Result<Vec<&'static Recipe>, Error> {
        if !self.fit.is_empty() {
            return Ok(Vec::new());
        }
        let mut types: Vec<&'static Recipe> = Vec::new();
        for recipe in &self.types {
            if !types.iter().any(|known| known.canonical_name() == recipe.canonical_name()) {
                types.push(recipe);
            }
        }
        if types.is_empty() { self.ladder.unwrap_or(Ladder::Small).types() } else { Ok(types) }
    }

    /// Tokens of a chunk.
    pub fn context(&self) -> usize {
        self.context.unwrap_or(CONTEXT) as usize
    }

    /// Tokens that a budget is for, for a model that was trained for `trained` tokens, or an unknown number if that is 0.
    pub fn fit_context(&self, trained: u64) -> u64 {
        const USUAL: u64 = 8192;
        self.fit_context.unwrap_or(if trained > 0 { trained.min(USUAL) } else { USUAL })
    }

    /// Lengths of the context for the card: some usual ones up to what the model was trained for, and the requested one.
    pub fn contexts(&self, trained: u64) -> Vec<u64> {
        let usual = [4096, 8192, 32_768, 131_072];
        let mut contexts: Vec<u64> =
            usual.into_iter().filter(|context| trained == 0 || *context <= trained).collect();
        if contexts.is_empty() {
            contexts.push(trained);
        }
        contexts.extend(self.fit_context);
        contexts.sort_unstable();
        contexts.dedup();
        contexts
    }
}

//! Quantization of a GGUF file.

use std::path::PathBuf;

use gguf_container::Model;
use gguf_conversion::Error as EngineError;
use serde::{Deserialize, Serialize};

use super::{
    options::{FamilyOptions, OutputOptions, PlainOptions, named_recipes},
    quantize_model::{self, QuantizeJob},
    run_args::{Caller, Outcome, RunArgs},
};
use crate::{
    adapter::Adapter,
    calibration::{BudgetOptions, CalibrationOptions},
    cause::Cause,
    error::Error,
    events::Events,
    failure::{failure, quoted},
    file_type::FileType,
    hub::HubOptions,
    input_kind::{self, Wanted},
    settings::{OtherSettings, RecipeOptions, TensorOptions},
};
use gguf_types::{Words, words};

/// Quantization of a GGUF file to files of other types, as `llama-quantize` does.
///
/// # Examples
/// ```no_run
/// use gguf_toolkit::{FileType, Quantize};
///
/// # fn main() -> Result<(), gguf_toolkit::Error> {
/// let mut quantize = Quantize::new("model-BF16.gguf", [FileType::IQ3_XXS]);
/// quantize.tensors.imatrix = Some("imatrix.gguf".into());
/// quantize.output.out = Some("model-IQ3_XXS.gguf".into());
/// quantize.run(&())?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[serde(default, deny_unknown_fields)]
pub struct Quantize {
    /// GGUF file, or a shard of a split model.
    #[cfg_attr(feature = "clap", arg(skip))]
    #[serde(with = "crate::path_json::one")]
    pub source: PathBuf,
    /// Add a LoRA adapter (repeatable).
    ///
    /// ADAPTER is an adapter file for IN, as `gguf-convert adapter` writes it. For a diffusion model, ADAPTER is a
    /// safetensors file or a folder with one. It is merged into the weights, which are
    /// rounded once, to their type in the file. Weights that are already quantized need --allow-requantize. SCALE
    /// defaults to 1. Several adapters are merged in the given order.
    #[cfg_attr(feature = "clap", arg(long = "lora", value_name = "ADAPTER[=SCALE]", value_hint = clap::ValueHint::FilePath, hide_short_help = true))]
    pub adapters: Vec<Adapter>,
    /// File types to make in one pass; empty if a recipe file states them. [`FileType::COPY`] copies all tensors.
    #[cfg_attr(feature = "clap", arg(skip))]
    pub types: Vec<FileType>,
    /// Quantize tensors that are already quantized.
    ///
    /// They lose precision twice. Use the original weights if you can.
    #[cfg_attr(feature = "clap", arg(long))]
    pub allow_requantize: bool,
    /// Write as many shards as the input has.
    ///
    /// Each holds the same tensors as before.
    #[cfg_attr(feature = "clap", arg(long, conflicts_with = "recipe", hide_short_help = true))]
    pub keep_split: bool,
    /// Repair a file of an image or video model that ComfyUI refuses.
    ///
    /// Lost dimensions and the name of the architecture are restored, and parameters that loaders do not decode become F32. With the
    /// type `copy`, all other tensors keep their bytes.
    #[cfg_attr(feature = "clap", arg(long, hide_short_help = true))]
    pub repair: bool,
    /// Values of weights and their byte order.
    #[cfg_attr(feature = "clap", command(flatten))]
    pub plain: PlainOptions,
    /// Families of image and video models.
    #[cfg_attr(feature = "clap", command(flatten))]
    pub families: FamilyOptions,
    /// Types of tensors, importance matrix, metadata, layers and shards.
    #[cfg_attr(feature = "clap", command(flatten))]
    pub tensors: TensorOptions,
    /// Recipe files.
    #[cfg_attr(feature = "clap", command(flatten))]
    pub replay: RecipeOptions,
    /// Calibration texts, if any.
    #[cfg_attr(feature = "clap", command(flatten))]
    pub calibration: CalibrationOptions,
    /// Choice of types for a size, with a calibration.
    #[cfg_attr(feature = "clap", command(flatten))]
    pub budget: BudgetOptions,
    /// Output.
    #[cfg_attr(feature = "clap", arg(skip))]
    pub output: OutputOptions,
    /// Access to the Hub, for a recipe.
    #[cfg_attr(feature = "clap", arg(skip))]
    pub hub: HubOptions,
}

impl Quantize {
    /// The conversion that was meant if the input is a checkpoint.
    fn as_conversion(&self) -> Option<Words> {
        let out = self.output.out.as_deref().filter(|_| self.source.join("config.json").is_file())?;
        let [source, out] = [&self.source, out].map(|path| quoted(&path.display().to_string()));
        let types: Vec<String> = self.types.iter().map(ToString::to_string).collect();
        let types = Some(types.join(",")).filter(|types| !["", "copy"].contains(&types.as_str()))?;
        Some(words!("to convert it, run `[gguf-convert {} {} -type {}]`", source, out, types))
    }

    /// Does the part of the quantization that a caller asks for.
    ///
    /// # Errors
    /// As [`Quantize::run`].
    pub fn run_for(&self, caller: Caller<'_>, events: &dyn Events) -> Result<Outcome, Error> {
        let model = Model::open(&self.source).map_err(|error| {
            let failed = failure(&self.source, EngineError::Gguf(error));
            match self.as_conversion() {
                Some(call) => failed.hint([words!("the folder is a checkpoint; ") + call]),
                None => input_kind::explained(&self.source, Wanted::Gguf, failed),
            }
        })?;
        input_kind::check_model(&self.source)?;
        let recipes = named_recipes(&self.types)?;
        if recipes.is_empty() && self.replay.recipe.is_none() {
            return Err(Error::usage(Cause::NoType));
        }
        let other = OtherSettings {
            keep_split: self.keep_split,
            allow_requantize: self.allow_requantize,
            repair: self.repair,
            ..self.plain.settings()
        };
        if self.calibration.is_wanted() && !self.adapters.is_empty() {
            let error = Error::usage(words!("[-calibrate] cannot be used with [-lora]"));
            return Err(error.hint(["merge the adapter first, with the type of the input"]));
        }
        let settings = self.tensors.read(&self.replay, other, &self.hub, events)?;
        let adapters = self.adapters.iter().map(|adapter| adapter.path.as_path());
        let call = caller
            .call
            .reads(self.tensors.files())
            .reads(self.replay.file())
            .reads(self.calibration.files())
            .reads(self.families.family.as_deref())
            .reads(adapters);
        let mut args = RunArgs::new(&self.output, settings.nonfinite(), Caller { call, ..caller });
        args.gathers = self.calibration.is_wanted();
        let job = QuantizeJob {
            families: self.families.read()?,
            base: &self.source,
            input: &self.source,
            adapters: &self.adapters,
            format: "GGUF",
            recipes,
            settings,
            calibration: &self.calibration,
            budget: &self.budget,
        };
        quantize_model::run(model, job, args, events)
    }
}

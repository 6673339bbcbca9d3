//! A conversion of any kind, as plans store it.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{
    adapter::ConvertAdapter,
    checkpoint::Convert,
    legacy::ConvertLegacy,
    options::OutputOptions,
    projector::ConvertProjector,
    quantize::Quantize,
    report::Report,
    run_args::{Caller, Outcome, Plan},
};
use crate::{
    call::Call,
    error::Error,
    events::Events,
    file_type::FileType,
    hub::{HubOptions, is_hub_address},
    settings::RecipeOptions,
};

/// A conversion that can be divided into parts.
///
/// Its JSON form has the kind of the conversion as `operation`, and the fields of the conversion as `options`.
///
/// # Examples
/// ```
/// use gguf_toolkit::{FileType, Quantize, convert::Operation};
///
/// let operation = Operation::from(Quantize::new("model-BF16.gguf", [FileType::Q4_K_M]));
/// let json = serde_json::to_value(&operation)?;
/// assert_eq!(json["operation"], "quantize");
/// assert_eq!(json["options"]["source"], "model-BF16.gguf");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "operation", content = "options", rename_all = "snake_case", deny_unknown_fields)]
pub enum Operation {
    /// Conversion of a checkpoint.
    Convert(Box<Convert>),
    /// Conversion of a LoRA adapter.
    ConvertAdapter(Box<ConvertAdapter>),
    /// Conversion of the projector of a checkpoint.
    ConvertProjector(Box<ConvertProjector>),
    /// Conversion of a file in a format older than GGUF.
    ConvertLegacy(Box<ConvertLegacy>),
    /// Quantization of a GGUF file.
    Quantize(Box<Quantize>),
}

macro_rules! conversions {
    ($($name:ident)*) => {$(
        impl $name {
            /// Conversion of `source` to these types.
            pub fn new(source: impl Into<PathBuf>, types: impl IntoIterator<Item = FileType>) -> $name {
                $name { source: source.into(), types: types.into_iter().collect(), ..$name::default() }
            }

            /// Plans the files. Reads headers only, and writes nothing except a recipe file if one is requested.
            ///
            /// # Errors
            /// Invalid options, or an input that cannot be read.
            pub fn plan(&self, events: &dyn Events) -> Result<Plan, Error> {
                self.run_for(Caller::planning(self)?, events)?.plan()
            }

            /// Writes the files. Each gets its name only when it is complete.
            ///
            /// # Errors
            /// Invalid options, an input that cannot be read, an output that cannot be written, an interruption.
            pub fn run(&self, events: &dyn Events) -> Result<Report, Error> {
                self.run_for(Caller::library(self)?, events)?.written()
            }
        }

        impl From<$name> for Operation {
            fn from(options: $name) -> Operation {
                Operation::$name(Box::new(options))
            }
        }
    )*};
}

conversions! { Convert ConvertAdapter ConvertProjector ConvertLegacy Quantize }

/// Evaluates an expression with the options of a conversion, whose type depends on the kind.
macro_rules! with_options {
    ($operation:expr, $options:ident => $result:expr) => {
        match $operation {
            Operation::Convert($options) => $result,
            Operation::ConvertAdapter($options) => $result,
            Operation::ConvertProjector($options) => $result,
            Operation::ConvertLegacy($options) => $result,
            Operation::Quantize($options) => $result,
        }
    };
}

/// Options that belong to the process of a conversion, not to its plan.
pub(super) struct ProcessOptions<'a> {
    pub output: &'a mut OutputOptions,
    pub hub: Option<&'a mut HubOptions>,
    pub keep: Option<&'a mut bool>,
    pub replay: Option<&'a mut RecipeOptions>,
}

impl Operation {
    /// Does the part of the conversion that a caller asks for.
    ///
    /// # Errors
    /// As [`Convert::run`].
    pub fn run_for(&self, caller: Caller<'_>, events: &dyn Events) -> Result<Outcome, Error> {
        with_options!(self, options => options.run_for(caller, events))
    }

    /// Output of the conversion.
    pub fn output(&self) -> &OutputOptions {
        with_options!(self, options => &options.output)
    }

    /// Identity of the conversion.
    ///
    /// # Errors
    /// Options that have no JSON form.
    pub fn call(&self) -> Result<Call, Error> {
        with_options!(self, options => Call::of_options(options))
    }

    /// Options that a plan does not hold.
    pub(super) fn process_options(&mut self) -> ProcessOptions<'_> {
        match self {
            Operation::Convert(options) => ProcessOptions {
                output: &mut options.output,
                hub: Some(&mut options.hub),
                keep: Some(&mut options.keep),
                replay: Some(&mut options.replay),
            },
            Operation::ConvertAdapter(options) => ProcessOptions {
                output: &mut options.output,
                hub: Some(&mut options.hub),
                keep: Some(&mut options.keep),
                replay: None,
            },
            Operation::ConvertProjector(options) => ProcessOptions {
                output: &mut options.output,
                hub: Some(&mut options.hub),
                keep: Some(&mut options.keep),
                replay: Some(&mut options.replay),
            },
            Operation::ConvertLegacy(options) => ProcessOptions {
                output: &mut options.output,
                hub: None,
                keep: None,
                replay: Some(&mut options.replay),
            },
            Operation::Quantize(options) => ProcessOptions {
                output: &mut options.output,
                hub: None,
                keep: None,
                replay: Some(&mut options.replay),
            },
        }
    }

    /// True if the conversion has an architecture of the calling program, which has no JSON form.
    pub(super) fn has_custom_arch(&self) -> bool {
        matches!(self, Operation::Convert(options) if options.arch.custom.is_some())
    }

    /// True if a path depends on the current folder.
    pub(super) fn is_relative(&self) -> bool {
        let is_address = |path: &Path| path.to_str().is_some_and(is_hub_address);
        self.paths().into_iter().any(|path| path.is_relative() && !is_address(path))
    }

    /// Files and folders that are read, and the output.
    fn paths(&self) -> Vec<&Path> {
        let source = with_options!(self, options => options.source.as_path());
        let files: Vec<&Path> = match self {
            Operation::Convert(options) => {
                let adapters = options.adapters.iter().map(|adapter| adapter.path.as_path());
                let files = options.tensors.files().chain(options.replay.file()).chain(adapters);
                files.chain(options.arch.target_model_dir.as_deref()).collect()
            }
            Operation::ConvertAdapter(options) => options.base.iter().map(AsRef::as_ref).collect(),
            Operation::ConvertProjector(options) => {
                options.tensors.files().chain(options.replay.file()).collect()
            }
            Operation::ConvertLegacy(options) => {
                let files = options.tensors.files().chain(options.replay.file());
                files.chain(options.config.as_deref()).collect()
            }
            Operation::Quantize(options) => {
                let calibration = &options.calibration;
                let adapters = options.adapters.iter().map(|adapter| adapter.path.as_path());
                let files = options.tensors.files().chain(options.replay.file()).chain(calibration.files());
                files.chain(calibration.statistics.as_deref()).chain(adapters).collect()
            }
        };
        // An output without a name is in the current folder.
        let out = self.output().out.as_deref().unwrap_or(Path::new(""));
        [source, out].into_iter().chain(files).collect()
    }
}

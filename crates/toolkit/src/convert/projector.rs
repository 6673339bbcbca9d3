//! Conversion of the vision or audio projector of a checkpoint, without the model.

use std::path::PathBuf;

use gguf_conversion::CheckpointInput;
use serde::{Deserialize, Serialize};

use super::{
    opened::opened,
    options::{EncodingOptions, OutputOptions, ReadingOptions, recipes_of, require_types},
    run::run,
    run_args::{Caller, Outcome, Requested, RunArgs},
};
use crate::{
    error::Error,
    events::Events,
    failure::failure,
    file_type::FileType,
    hub::{self, HubOptions},
    settings::{RecipeOptions, TensorOptions},
};

/// Conversion of the vision or audio projector of a checkpoint, without the model.
///
/// # Examples
/// ```no_run
/// use gguf_toolkit::{ConvertProjector, FileType};
///
/// # fn main() -> Result<(), gguf_toolkit::Error> {
/// ConvertProjector::new("Qwen3-VL-4B", [FileType::F16]).run(&())?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ConvertProjector {
    /// Checkpoint folder, or `hf://OWNER/MODEL[@REVISION]`.
    #[serde(with = "crate::path_json::one")]
    pub source: PathBuf,
    /// File types.
    pub types: Vec<FileType>,
    /// Store downloads in the local cache of the Hub.
    pub keep: bool,
    /// Name of the model, instead of that in the checkpoint.
    pub model_name: Option<String>,
    /// Interpretation of the checkpoint's files.
    pub reading: ReadingOptions,
    /// Encoding of weights.
    pub encoding: EncodingOptions,
    /// Types of tensors and metadata.
    pub tensors: TensorOptions,
    /// Recipe files.
    pub replay: RecipeOptions,
    /// Output.
    pub output: OutputOptions,
    /// Access to the Hub.
    pub hub: HubOptions,
}

impl ConvertProjector {
    /// Does the part of the conversion that a caller asks for.
    ///
    /// # Errors
    /// As [`ConvertProjector::run`].
    pub fn run_for(&self, caller: Caller<'_>, events: &dyn Events) -> Result<Outcome, Error> {
        let failed = |error| failure(&self.source, error);
        let out = self.output.storage(caller.dry_run);
        let wanted = hub::Wanted { weights: true, keep: self.keep, out };
        let input = hub::input(&self.source, wanted, &self.hub, events)?;
        let call = input.name_in(caller.call.reads(self.tensors.files()).reads(self.replay.file()));
        let folder = self.reading.apply(&input.folder);
        if self.replay.recipe.is_none() {
            require_types(&self.types, &self.source, &folder)?;
        }
        let settings = self.tensors.read(&self.replay, self.encoding.settings(), &self.hub, events)?;
        let options = gguf_layout::Options {
            ..gguf_layout::Options::new(gguf_models::FAMILIES).named(self.model_name.clone())
        };
        let projector = CheckpointInput::open_projector(folder, &options).map_err(failed)?;
        let recipes = recipes_of(&self.types, projector.checkpoint())?;
        let args = RunArgs::new(&self.output, settings.nonfinite(), Caller { call, ..caller });
        let open = opened(projector, &self.source);
        let outcome = run(open, Requested::new(recipes, &settings), &args, events)?;
        input.finish(events)?;
        Ok(outcome)
    }
}

//! Conversion of a state dict in memory.

use std::path::Path;

use gguf_checkpoint::Memory;
use gguf_conversion::{CheckpointInput, Error as EngineError};
use serde::{Deserialize, Serialize};

use super::{
    opened::opened,
    options::{ArchOptions, EncodingOptions, NamingOptions, OutputOptions, recipes_of},
    report::Report,
    run::run,
    run_args::{Caller, Outcome, Plan, Requested, RunArgs},
};
use crate::{
    cause::Cause,
    error::Error,
    events::Events,
    failure::failure,
    file_type::FileType,
    hub::HubOptions,
    layout_notes::report_unread_keys,
    settings::{OtherSettings, RecipeOptions, TensorOptions},
};

/// Conversion of a state dict in memory, with the small files that belong to it, to GGUF files. Its bytes are not
/// copied.
///
/// # Examples
/// ```no_run
/// use gguf_toolkit::{FileType, Memory, Save};
///
/// # fn main() -> Result<(), gguf_toolkit::Error> {
/// # let memory = Memory::default();
/// let mut save = Save::new([FileType::Q8_0]);
/// save.output.out = Some("model-q8_0.gguf".into());
/// save.run(memory, &())?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Save {
    /// File types to make in one pass; empty if a recipe file states them.
    pub types: Vec<FileType>,
    /// Keep quantized weights bit for bit if a ggml type can hold them.
    pub repack: bool,
    /// Architecture.
    pub arch: ArchOptions,
    /// Name and tokenizer.
    pub naming: NamingOptions,
    /// Encoding of weights.
    pub encoding: EncodingOptions,
    /// Types of tensors, importance matrix, metadata, layers and shards.
    pub tensors: TensorOptions,
    /// Recipe files.
    pub replay: RecipeOptions,
    /// Output. An interrupted run cannot be resumed.
    pub output: OutputOptions,
    /// Access to the Hub, for the target of a draft model.
    pub hub: HubOptions,
}

impl Save {
    /// Conversion to these types.
    pub fn new(types: impl IntoIterator<Item = FileType>) -> Save {
        Save { types: types.into_iter().collect(), ..Save::default() }
    }

    /// Plans the files of a state dict. Reads no weights, and writes nothing except a recipe file if one is requested.
    ///
    /// # Errors
    /// Invalid options, or tensors that do not fit the config.
    pub fn plan(&self, memory: Memory, events: &dyn Events) -> Result<Plan, Error> {
        self.run_for(memory, Caller::planning(self)?, events)?.plan()
    }

    /// Writes the files of a state dict. Each gets its name only when it is complete.
    ///
    /// # Errors
    /// Invalid options, tensors that do not fit the config, an output that cannot be written, an interruption.
    pub fn run(&self, memory: Memory, events: &dyn Events) -> Result<Report, Error> {
        self.run_for(memory, Caller::library(self)?, events)?.written()
    }

    fn run_for(&self, memory: Memory, caller: Caller<'_>, events: &dyn Events) -> Result<Outcome, Error> {
        if self.types.is_empty() && self.replay.recipe.is_none() {
            return Err(Error::usage(Cause::NoType));
        }
        if self.output.resume || self.output.resumable {
            return Err(Error::usage("a conversion of tensors in memory cannot be resumed"));
        }
        let name = memory.name.clone();
        let path = Path::new(&name);
        // The name of a model in memory is not that of a file.
        self.convert(memory, path, caller, events).map_err(|error| error.without_path(path))
    }

    fn convert(
        &self,
        memory: Memory,
        path: &Path,
        caller: Caller<'_>,
        events: &dyn Events,
    ) -> Result<Outcome, Error> {
        let failed = |error| failure(path, error);
        let options = self.arch.resolving(&self.naming, &self.hub, events)?;
        let other = OtherSettings { repack: self.repack, ..self.encoding.settings() };
        let settings = self.tensors.read(&self.replay, other, &self.hub, events)?;
        let checkpoint = gguf_checkpoint::open_memory(memory, gguf_models::FORMS)
            .map_err(|error| failed(EngineError::Source(error)))?;
        let input = CheckpointInput::from_checkpoint(checkpoint, &options, self.arch.custom);
        let mut open = opened(input.map_err(failed)?, path);
        let layout = open.input.layout();
        open.notes.notes.extend(report_unread_keys(layout, self.arch.arch_as.is_some(), events));
        if self.repack {
            open.repacked = open.input.repacked().map_err(failed)?.to_vec();
        }
        let recipes = recipes_of(&self.types, open.input.checkpoint())?;
        let args = RunArgs::new(&self.output, settings.nonfinite(), caller);
        run(open, Requested::new(recipes, &settings), &args, events)
    }
}

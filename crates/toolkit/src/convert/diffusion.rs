//! Conversion of a checkpoint of a diffusion model.

use gguf_checkpoint::Folder;
use gguf_conversion::{DiffusionInput, recipes::Recipe};

use super::{
    checkpoint::Convert,
    options::named_recipe,
    report::stored_as,
    run::run,
    run_args::{Caller, OpenInput, Outcome, Requested, RunArgs},
};
use crate::{
    cause::Cause, error::Error, events::Events, failure::failure, file_type::FileType, hub::HubOptions,
    layout_notes::Notes,
};

/// Options of [`Convert`] that a diffusion model has.
const OPTIONS: &[&str] = &["types", "encoding", "tensors"];

impl Convert {
    /// Converts the source, which is a checkpoint of a diffusion model.
    pub(super) fn convert_diffusion(
        &self,
        caller: Caller<'_>,
        events: &dyn Events,
    ) -> Result<Outcome, Error> {
        self.allow_only(OPTIONS, "a diffusion model")?;
        let failed = |error| failure(&self.source, error);
        let call = caller.call.reads(self.tensors.files());
        let settings = self.tensors.read(self.encoding.settings(), &HubOptions::default(), events)?;
        let input = DiffusionInput::open(gguf_models::FAMILIES, &Folder::at(&self.source)).map_err(failed)?;
        let call = call.reads(input.paths().iter().map(std::path::PathBuf::as_path));
        if self.types.is_empty() && self.tensors.recipe.is_none() {
            return Err(Error::usage(Cause::NoType));
        }
        let recipe = |file_type: &FileType| match file_type {
            FileType::Auto => Recipe::from_name(input.usual().name()).map_err(Error::new),
            named => named_recipe(named),
        };
        let recipes = self.types.iter().map(recipe).collect::<Result<_, Error>>()?;
        let (checkpoint, layout) = (input.checkpoint(), input.layout());
        let stored_as = layout.tensors.iter().map(|tensor| stored_as(checkpoint, &tensor.data)).collect();
        let open = OpenInput {
            path: &self.source,
            files: input.paths().to_vec(),
            format: checkpoint.format,
            architecture: layout.architecture.to_owned(),
            notes: Notes::of(&checkpoint.notes, &[layout]),
            dropped: layout.dropped.clone(),
            stored_as,
            repacked: Vec::new(),
            input,
        };
        let args = RunArgs::new(&self.output, settings.nonfinite(), Caller { call, ..caller });
        run(open, Requested::new(recipes, &settings), &args, events)
    }
}

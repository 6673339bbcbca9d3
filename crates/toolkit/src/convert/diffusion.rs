//! Conversion of a checkpoint of a diffusion model.

use gguf_checkpoint::Folder;
use gguf_conversion::{DiffusionInput, DiffusionOptions, merge::LoraAdapter, recipes::Recipe};

use super::{
    checkpoint::Convert,
    options::named_recipe,
    report::stored_as,
    run::run,
    run_args::{Caller, OpenInput, Outcome, Requested, RunArgs},
};
use crate::{
    adapter::Adapter,
    calibration::{
        NamedInput,
        types_by_weights::{self, Basis},
    },
    cause::Cause,
    error::Error,
    events::Events,
    failure::failure,
    file_type::FileType,
    hub::{HubOptions, is_hub_address},
    layout_notes::Notes,
};

/// Options of [`Convert`] that apply to a diffusion model.
const OPTIONS: &[&str] = &[
    "types",
    "adapters",
    "encoding",
    "tensors",
    "replay",
    "budget",
    "arch.arch_as",
    "families",
    "no_reshape",
];

impl Convert {
    /// Converts the source, which is a checkpoint of a diffusion model.
    pub(super) fn convert_diffusion(
        &self,
        caller: Caller<'_>,
        events: &dyn Events,
    ) -> Result<Outcome, Error> {
        if self.calibration.is_wanted() {
            return Err(types_by_weights::no_calibration(&self.source));
        }
        if let Some(adapter) =
            self.adapters.iter().find(|adapter| is_hub_address(&adapter.path.to_string_lossy()))
        {
            return Err(Error::at(&adapter.path, "adapters of diffusion models are not fetched")
                .hint(["download the file and pass its path"]));
        }
        let failed = |error| failure(&self.source, error);
        let call = caller
            .call
            .reads(self.tensors.files())
            .reads(self.replay.file())
            .reads(self.families.family.as_deref());
        let settings =
            self.tensors.read(&self.replay, self.encoding.settings(), &HubOptions::default(), events)?;
        let adapters = self.adapters.iter().map(Adapter::of_diffusion);
        let input = DiffusionInput::open_with_adapters(
            self.families.read()?,
            &Folder::at(&self.source),
            &adapters.collect::<Vec<LoraAdapter>>(),
            DiffusionOptions { arch_as: self.arch.arch_as.as_deref(), no_reshape: self.no_reshape },
        )
        .map_err(failed)?;
        self.allow_only(OPTIONS, "a diffusion model")?;
        let call = call.reads(input.paths().iter().map(std::path::PathBuf::as_path));
        if self.types.is_empty() && self.replay.recipe.is_none() {
            return Err(Error::usage(Cause::NoType));
        }
        let recipe = |file_type: &FileType| match file_type {
            FileType::Auto => Recipe::from_name(input.usual().name()).map_err(Error::new),
            named => named_recipe(named),
        };
        let recipes = self.types.iter().map(recipe).collect::<Result<Vec<_>, Error>>()?;
        let (checkpoint, layout) = (input.checkpoint(), input.layout());
        let architecture =
            layout.metadata.get("general.architecture").and_then(gguf_container::Value::as_str);
        let stored_as = layout.tensors.iter().map(|tensor| stored_as(checkpoint, &tensor.data)).collect();
        let open = OpenInput {
            path: &self.source,
            files: input.paths().to_vec(),
            format: checkpoint.format,
            architecture: architecture.unwrap_or_default().to_owned(),
            notes: Notes::of(&checkpoint.notes, &[layout]),
            dropped: layout.dropped.clone(),
            stored_as,
            repacked: Vec::new(),
            input,
        };
        let args = RunArgs::new(&self.output, settings.nonfinite(), Caller { call, ..caller });
        let named = NamedInput { input: &open.input, path: open.path };
        let (budget, basis) = (&self.budget, Basis::Weights);
        let settings =
            budget.decide_by_weight_error(named, &recipes, settings, basis, &args.options, events)?;
        run(open, Requested::new(recipes, &settings), &args, events)
    }
}

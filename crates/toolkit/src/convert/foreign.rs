//! Conversion of a checkpoint to the format of another runtime.

use gguf_checkpoint::Folder;
use gguf_conversion::{ForeignInput, merge::LoraAdapter, recipes::Recipe};
use gguf_layout::ForeignFormat;

use super::{
    checkpoint::Convert,
    report::stored_as,
    run::run,
    run_args::{Caller, OpenInput, Outcome, Parts, Requested, RunArgs},
};
use crate::{
    error::Error,
    events::Events,
    failure::failure,
    file_type::FileType,
    layout_notes::{Notes, dropped},
    settings::TensorOptions,
};

/// Formats other than GGUF that models of some architectures can be written in.
///
/// # Examples
/// ```
/// let names: Vec<&str> = gguf_toolkit::foreign_formats().iter().map(|format| format.name).collect();
/// assert_eq!(names, ["whisper.cpp"]);
/// ```
pub fn foreign_formats() -> &'static [ForeignFormat] {
    gguf_models::FAMILIES.foreign
}

/// Options that apply to such formats.
const OPTIONS: &[&str] = &[
    "to",
    "types",
    "adapters",
    "lora_tokenizer",
    "keep",
    "config",
    "reading",
    "naming.model_name",
    "encoding.plain.allow_nonfinite",
    "output",
    "hub",
];

impl Convert {
    /// Fails if an option is set that the format does not have.
    pub(super) fn check_foreign(&self, format: &ForeignFormat, parts: &Parts<'_>) -> Result<(), Error> {
        if !parts.is_whole() {
            return Err(Error::usage(format_args!("`to` cannot be used with a plan")));
        }
        self.allow_only(OPTIONS, &format!("the format of {}", format.name))
    }

    /// Converts the checkpoint in `folder`, with adapters merged, to `format`.
    pub(super) fn convert_to(
        &self,
        format: &'static ForeignFormat,
        folder: &Folder,
        adapters: &[LoraAdapter],
        caller: Caller<'_>,
        events: &dyn Events,
    ) -> Result<Outcome, Error> {
        let options = self.naming.resolving();
        let input = ForeignInput::open(folder.clone(), adapters, &options, format);
        let input = input.map_err(|error| failure(&self.source, error))?;
        let settings =
            TensorOptions::default().read(&self.replay, self.encoding.settings(), &self.hub, events)?;
        let (checkpoint, layout) = (input.checkpoint(), input.layout());
        let recipes = self.foreign_recipes(format)?;
        let mut notes = Notes::of(&checkpoint.notes, &[layout]).with_warnings(&checkpoint.warnings);
        let types = format
            .types
            .iter()
            .filter(|known| recipes.iter().any(|recipe| known.name.eq_ignore_ascii_case(recipe.name)));
        notes.warnings.extend(types.filter_map(|known| known.warning).map(Into::into));
        let open = OpenInput {
            path: &self.source,
            files: Vec::new(),
            format: checkpoint.format,
            architecture: layout.architecture.to_owned(),
            notes,
            dropped: dropped(&[layout]),
            stored_as: layout.tensors.iter().map(|tensor| stored_as(checkpoint, &tensor.data)).collect(),
            repacked: Vec::new(),
            input,
        };
        let args = RunArgs::new(&self.output, settings.nonfinite(), caller);
        run(open, Requested::new(recipes, &settings), &args, events)
    }

    /// Recipes with the names of the requested types. The default, and `auto`, is the first type of the format.
    fn foreign_recipes(&self, format: &ForeignFormat) -> Result<Vec<&'static Recipe>, Error> {
        let first = || format.types.first().map_or("f16", |first| first.name);
        let recipe = |file_type: &FileType| match file_type.recipe() {
            Some(recipe) => Ok(recipe),
            None => Recipe::from_name(first()).map_err(Error::new),
        };
        let types = if self.types.is_empty() { &[FileType::Auto][..] } else { &self.types };
        types.iter().map(recipe).collect()
    }
}

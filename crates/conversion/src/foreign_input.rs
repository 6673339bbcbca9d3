//! Converts a checkpoint to the format of another runtime ([`ForeignFormat`]).

use std::path::Path;

use gguf_checkpoint::{Checkpoint, Folder};
use gguf_container::{Mapped, Plan};
use gguf_layout::{ForeignFormat, ForeignLayout, ForeignType, Layout, Options};
use gguf_types::DType;

use crate::{
    Error,
    checkpoint_input::{CheckpointInput, layout_tasks, layout_tensors},
    input::Input,
    job::TensorTask,
    merge::LoraAdapter,
    planned::{Choice, FileOf, PlannedFile},
    recipes::{Reason, Recipe, TensorFacts},
    request::{OutputRequest, Request},
    resolve::{arch_input, normalized},
};

/// A checkpoint folder and its layout for another format.
#[derive(Debug)]
pub struct ForeignInput {
    format: &'static ForeignFormat,
    input: CheckpointInput,
    layout: ForeignLayout,
}

impl ForeignInput {
    /// Opens a folder, merges adapters in order, and resolves the result for `format`.
    ///
    /// # Errors
    /// [`Error::ForeignClass`] for a model that the format does not support; [`Error::Source`],
    /// [`Error::Arch`], [`Error::Shape`], [`Error::Merge`].
    pub fn open(
        folder: impl Into<Folder>,
        adapters: &[LoraAdapter],
        options: &Options,
        format: &'static ForeignFormat,
    ) -> Result<ForeignInput, Error> {
        let folder = folder.into();
        let checkpoint = normalized(gguf_checkpoint::open_text(folder.clone())?, options)?;
        check_class(&checkpoint, format)?;
        let input = CheckpointInput::with_adapters(checkpoint, adapters, options, Some(format.arch))?;
        let input = input.read_from(&folder, adapters);
        let layout = (format.finish)(&arch_input(input.checkpoint())?, input.layout().clone())?;
        Ok(ForeignInput { format, input, layout })
    }

    /// The checkpoint.
    pub fn checkpoint(&self) -> &Checkpoint {
        self.input.checkpoint()
    }

    /// The layout, with tensors in the order of the file.
    pub fn layout(&self) -> &Layout {
        &self.layout.layout
    }

    /// File type with the name of the recipe.
    fn type_of(&self, recipe: &Recipe) -> Result<ForeignType, Error> {
        let found = self.format.types.iter().find(|row| row.name.eq_ignore_ascii_case(recipe.name));
        found.copied().ok_or_else(|| Error::ForeignType {
            format: self.format.name,
            found: recipe.name.to_ascii_lowercase(),
            expected: self.format.types.iter().map(|row| row.name).collect(),
        })
    }
}

/// Fails unless the config names a class of the format's architecture.
fn check_class(checkpoint: &Checkpoint, format: &'static ForeignFormat) -> Result<(), Error> {
    let named = checkpoint.config.get("architectures").and_then(|classes| classes.get(0));
    let class = named.and_then(|class| class.as_str()).unwrap_or_default();
    let classes: Vec<&'static str> = format.arch.classes.iter().map(|class| class.name).collect();
    if classes.contains(&class) {
        return Ok(());
    }
    Err(Error::ForeignClass { format: format.name, found: class.to_owned(), expected: classes })
}

impl Input for ForeignInput {
    fn tensors(&self, _: &Recipe) -> Vec<TensorFacts<'_>> {
        layout_tensors(self.layout(), DType::F16)
    }

    fn sources(&self) -> Vec<Mapped> {
        self.input.sources()
    }

    fn file_name(&self, file: &PlannedFile) -> String {
        let name = gguf_layout::default_file_name(&self.layout().metadata, file.recipe.name);
        let stem = name.strip_suffix(".gguf").unwrap_or(&name);
        format!("{stem}.{}", self.format.extension)
    }

    fn has_originals(&self) -> bool {
        true
    }

    fn check_output(&self, path: &Path, force: bool) -> Result<(), Error> {
        self.input.check_output(path, force)
    }

    /// Plans one file. The request has no effect, because the format has no metadata keys and one type for
    /// all matrices.
    fn plan(&self, output: &OutputRequest, _: &Request<'_>) -> Result<Vec<PlannedFile>, Error> {
        let (recipe, layout) = (output.recipe, self.layout());
        let file_type = self.type_of(recipe)?;
        let mut tensors = Vec::with_capacity(layout.tensors.len());
        let mut choices = Vec::with_capacity(layout.tensors.len());
        for (index, tensor) in layout.tensors.iter().enumerate() {
            let dtype = (self.format.dtype)(tensor, file_type.dtype);
            let row_elems = tensor.shape.row_elems();
            if !row_elems.is_multiple_of(dtype.block_elems()) {
                // Files of the format have one type, so there is no fallback.
                return Err(Error::ForeignRows {
                    format: self.format.name,
                    tensor: tensor.name.clone(),
                    row_elems,
                    dtype,
                });
            }
            let header = (self.format.tensor_header)(&tensor.name, &tensor.shape, dtype);
            tensors.push((tensor.name.clone(), tensor.shape, dtype, header));
            choices.push(Choice {
                tensor: index,
                dtype,
                reason: Reason::Default,
                fallback: None,
                raised_from: None,
                requires_imatrix: false,
            });
        }
        let plan = Plan::foreign(self.layout.header_of(file_type.number), tensors)?;
        let of = FileOf::Model;
        let warnings = Vec::new();
        Ok(vec![PlannedFile { recipe, of, plan, choices, shard: None, warnings, is_diffusion: false }])
    }

    fn tasks<'a>(&'a self, _: &Request<'_>) -> Result<Vec<TensorTask<'a>>, Error> {
        let mut tasks = layout_tasks(self.checkpoint(), self.layout(), None, &[])?;
        tasks.iter_mut().for_each(|task| task.via = self.format.via);
        Ok(tasks)
    }
}

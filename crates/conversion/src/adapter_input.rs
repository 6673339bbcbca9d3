//! Files of LoRA adapters.
//!
//! Source: `convert_lora_to_gguf.py` and `ModelBase.prepare_tensors` in `conversion/base.py` of
//! llama.cpp, as vendored in llama-cpp-python 0.3.36.

use std::path::{Path, PathBuf};

use gguf_checkpoint::Checkpoint;
use gguf_container::{DEFAULT_ALIGNMENT, Mapped, Plan};
use gguf_layout::{AdapterScale, Layout, Options};
use gguf_types::DType;

use crate::{
    Error,
    checkpoint_input::{converted_metadata, layout_tasks, layout_tensors},
    input::Input,
    job::TensorTask,
    merge::config::{Config, Target},
    output::check_output,
    planned::{Choice, FileOf, PlannedFile},
    recipes::{Reason, Recipe, TensorFacts},
    request::{OutputRequest, Request},
    resolve::arch_input,
};

/// An adapter, resolved by its base model.
#[derive(Debug)]
pub struct AdapterInput {
    folder: PathBuf,
    adapter: Checkpoint,
    layout: Layout,
}

impl AdapterInput {
    /// Resolves an adapter, opened from `folder`, by the config of its base model. The base model's weights
    /// are not read.
    ///
    /// # Errors
    /// [`Error::Adapter`] for kinds of adapters that an adapter file cannot store; [`Error::Arch`],
    /// [`Error::Shape`].
    pub fn new(
        folder: &Path,
        adapter: Checkpoint,
        base: &Checkpoint,
        options: &Options,
    ) -> Result<AdapterInput, Error> {
        let refused = |error| Error::Adapter(Box::new(error));
        let config = Config::new(&adapter.config, Target::File).map_err(refused)?;
        config.check_ranks(&adapter.tensors).map_err(refused)?;
        let alpha_of = |module: &str, rank: u64| config.effective_alpha(module, rank);
        let scale = AdapterScale { alpha: config.alpha(), alpha_of: &alpha_of };
        let layout =
            gguf_layout::resolve_adapter(&arch_input(base)?, &arch_input(&adapter)?, &scale, options);
        Ok(AdapterInput { folder: folder.to_owned(), layout: layout.map_err(Error::Arch)?, adapter })
    }

    /// Tensors and config of the adapter.
    pub fn adapter(&self) -> &Checkpoint {
        &self.adapter
    }

    /// The adapter's layout.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }
}

impl Input for AdapterInput {
    fn tensors(&self, _: &Recipe) -> Vec<TensorFacts<'_>> {
        layout_tensors(&self.layout, DType::BF16)
    }

    fn sources(&self) -> Vec<Mapped> {
        self.adapter.parts.iter().filter_map(|part| part.local().cloned()).collect()
    }

    fn file_name(&self, file: &PlannedFile) -> String {
        gguf_layout::adapter_file_name(&self.layout.metadata, file.recipe.canonical_name())
    }

    fn check_output(&self, path: &Path, force: bool) -> Result<(), Error> {
        check_output(path, &self.folder, force)
    }

    /// Plans every pair in the type of the recipe (F32, F16, BF16 or Q8_0), or in F16 if its rows do not fill
    /// blocks. Only the byte order of the request applies.
    fn plan(&self, output: &OutputRequest, request: &Request<'_>) -> Result<Vec<PlannedFile>, Error> {
        let (layout, recipe) = (&self.layout, output.recipe);
        let mut tensors = Vec::with_capacity(layout.tensors.len());
        let mut choices = Vec::with_capacity(layout.tensors.len());
        for (index, tensor) in layout.tensors.iter().enumerate() {
            // Rows of the second matrix of a pair have as many elements as the rank, mostly fewer than a
            // block of q8_0.
            let fits = tensor.shape.row_elems().is_multiple_of(recipe.default.block_elems());
            let dtype = tensor.float.dtype(if fits { recipe.default } else { DType::F16 });
            let (reason, fallback) = (Reason::Default, None);
            choices.push(Choice {
                tensor: index,
                dtype,
                reason,
                fallback,
                raised_from: None,
                requires_imatrix: false,
            });
            tensors.push((tensor.name.clone(), tensor.shape, dtype));
        }
        let metadata = converted_metadata(layout, recipe.file_type.id());
        let plan = Plan::new(&metadata, tensors, request.endian, DEFAULT_ALIGNMENT)?;
        let of = FileOf::Model;
        let warnings = Vec::new();
        Ok(vec![PlannedFile { recipe, of, plan, choices, shard: None, warnings, is_diffusion: false }])
    }

    fn tasks<'a>(&'a self, request: &Request<'_>) -> Result<Vec<TensorTask<'a>>, Error> {
        layout_tasks(&self.adapter, &self.layout, request.via, &[])
    }
}

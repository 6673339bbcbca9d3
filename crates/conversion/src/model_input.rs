//! From a GGUF file to planned files of other types, as `llama-quantize` does.
//!
//! Source: `llama_model_quantize_impl` in `src/llama-quant.cpp`, llama.cpp as vendored in llama-cpp-python
//! 0.3.36. Weights go from the stored type straight to the target through f32.

use std::path::Path;

use gguf_container::{Mapped, Model};
use gguf_layout::Families;

use crate::{
    Error,
    files::{self, Base, Source},
    input::Input,
    job::TensorTask,
    output::check_output_file,
    planned::PlannedFile,
    recipes::{Recipe, TensorFacts, ZeroBytes, quantized_metadata, reference_order, stored_file_type},
    request::{OutputRequest, Request, Shards},
    rows::GgufRows,
};

/// A model in one or several GGUF files.
#[derive(Debug)]
pub struct ModelInput {
    families: Families,
    model: Model,
}

impl ModelInput {
    /// The files of `model`; `families` hold facts that recipes use.
    pub fn new(families: Families, model: Model) -> ModelInput {
        ModelInput { families, model }
    }

    /// The model.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// The paths of its files.
    pub fn paths(&self) -> Vec<&Path> {
        self.model.shards().iter().map(|(path, _)| path.as_path()).collect()
    }
}

impl Input for ModelInput {
    fn tensors(&self, _: &Recipe) -> Vec<TensorFacts<'_>> {
        let tensors = self.model.tensors().map(|(_, tensor)| tensor);
        tensors
            .map(|tensor| TensorFacts { name: &tensor.name, shape: tensor.shape, dtype: tensor.dtype })
            .collect()
    }

    fn sources(&self) -> Vec<Mapped> {
        self.model.shards().iter().map(|(_, file)| file.bytes().clone()).collect()
    }

    fn file_name(&self, file: &PlannedFile) -> String {
        gguf_layout::default_file_name(self.model.metadata(), file.recipe.canonical_name())
    }

    fn check_output(&self, path: &Path, force: bool) -> Result<(), Error> {
        check_output_file(path, &self.paths(), force)
    }

    fn plan(&self, output: &OutputRequest, request: &Request<'_>) -> Result<Vec<PlannedFile>, Error> {
        let (model, recipe) = (&self.model, output.recipe);
        let tensors = self.tensors(recipe);
        let shards = model.shards().iter().enumerate();
        let source = |shard| Source { shard, ..Source::default() };
        let sources: Vec<Source> =
            shards.flat_map(|(shard, (_, file))| file.tensors().iter().map(move |_| source(shard))).collect();
        let order = if request.shards == Shards::Kept {
            // As in the files: tensors of one shard stay together.
            let offsets: Vec<u64> = model.tensors().map(|(_, tensor)| tensor.offset).collect();
            let mut order: Vec<usize> = (0..tensors.len()).collect();
            order.sort_by_key(|&index| (sources[index].shard, offsets[index]));
            order
        } else {
            reference_order(&tensors.iter().map(|tensor| tensor.name).collect::<Vec<_>>())
        };
        let file_type =
            // A copied file keeps its number.
            if recipe.copy { stored_file_type(model.metadata(), &tensors) } else { recipe.file_type.id() };
        let metadata = quantized_metadata(model.metadata(), file_type, ZeroBytes::EndText);
        let (families, tensors) = (&self.families, &tensors);
        let base = Base { families, metadata, tensors, order, converted: false, sources };
        files::plan(&base, output, request)
    }

    fn tasks<'a>(&'a self, _: &Request<'_>) -> Result<Vec<TensorTask<'a>>, Error> {
        // From the stored type straight to the target: there is no type between.
        let task = |(file, tensor): (&'a gguf_container::File, &'a gguf_container::TensorInfo)| {
            TensorTask::new(tensor.name.clone(), Box::new(GgufRows::new(file, tensor)))
        };
        Ok(self.model.tensors().map(task).collect())
    }
}

//! From a GGUF file to planned files of other types, as `llama-quantize` does.
//!
//! Source: `llama_model_quantize_impl` in `src/llama-quant.cpp`, llama.cpp as vendored in llama-cpp-python
//! 0.3.36. Weights go directly from the stored type to the target through f32, in which adapters are merged.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use gguf_checkpoint::{Part, Tensor, Tensors};
use gguf_container::{Adapter, Array, File, Mapped, Metadata, Model, TensorInfo, Value};
use gguf_layout::{Families, ORIGINAL_SHAPE_KEY};

use crate::{
    Error,
    files::{self, Base, Source},
    input::Input,
    job::TensorTask,
    merge::{DiffusionWeights, LoraAdapter, ModuleNames, add_adapter_list, add_merged_keys},
    output::check_output_file,
    planned::PlannedFile,
    recipes::{
        Recipe, TensorFacts, ZeroBytes, diffusion_metadata, quantized_metadata, reference_order,
        stored_file_type,
    },
    request::{OutputRequest, Request, Shards},
    rows::{AdaptedRows, GgufRows, MergedRows, RowSource, as_checkpoint_tensor},
};

/// A model in one or several GGUF files.
#[derive(Debug)]
pub struct ModelInput {
    families: Families,
    model: Model,
    /// Adapters to merge, with their scales.
    adapters: Vec<(Adapter, f64)>,
    merged: Merged,
}

/// Adapters of diffusion models to merge, with their scales.
#[derive(Debug, Default)]
struct Merged {
    adapters: Vec<(PathBuf, f64)>,
    parts: Vec<Part>,
    /// Changed tensors, by name.
    tensors: HashMap<String, Tensor>,
    notes: Vec<String>,
}

impl ModelInput {
    /// Opens the files of `model`; `families` provides facts for recipes.
    pub fn new(families: Families, model: Model) -> ModelInput {
        ModelInput { families, model, adapters: Vec::new(), merged: Merged::default() }
    }

    /// Merges adapter files in this order, each times its scale; 1 is as trained.
    ///
    /// # Errors
    /// [`Error::AdapterFile`] for a file that is not an adapter of this model.
    pub fn with_adapters(mut self, adapters: &[(PathBuf, f64)]) -> Result<ModelInput, Error> {
        for (path, scale) in adapters {
            let adapter = Adapter::open(path);
            let adapter = adapter.and_then(|adapter| adapter.check(&self.model).map(|()| adapter));
            let adapter = adapter.map_err(|error| Error::AdapterFile { path: path.clone(), error })?;
            self.adapters.push((adapter, *scale));
        }
        Ok(self)
    }

    /// Merges adapters of diffusion models ([`DiffusionWeights::merge`]) into a file of one.
    ///
    /// # Errors
    /// [`Error::Merge`] for an adapter that does not fit.
    pub fn with_diffusion_adapters(mut self, adapters: &[LoraAdapter]) -> Result<ModelInput, Error> {
        let metadata = self.model.metadata();
        let shapes = self.model.tensors().map(|(_, tensor)| (tensor.name.as_str(), tensor.shape));
        let found = self.families.diffusion_file(metadata, shapes);
        let names = found
            .and_then(|file| file.row.map(|row| ModuleNames { prefix: file.prefix, stages: row.stages() }));
        let mut tensors = Vec::new();
        for (_, file) in self.model.shards() {
            let file = Arc::new(file.clone());
            for tensor in file.tensors() {
                tensors.push(as_checkpoint_tensor(&file, tensor, torch_shape(metadata, tensor)));
            }
        }
        let mut weights =
            DiffusionWeights { tensors: Tensors::from(tensors.clone()), ..DiffusionWeights::default() };
        weights
            .merge(adapters, names.unwrap_or_default())
            .map_err(|(folder, error)| Error::Merge { folder, error })?;
        let storage = |tensor: &Tensor| tensor.stored.clone();
        let pairs = weights.tensors.iter().zip(&tensors);
        let changed = pairs.filter(|(new, old)| {
            let same = storage(new).zip(storage(old)).is_some_and(|(new, old)| Arc::ptr_eq(&new, &old));
            !same
        });
        self.merged.tensors = changed.map(|(new, _)| (new.name.clone(), new.clone())).collect();
        self.merged.adapters = adapters.iter().map(|adapter| (adapter.name.clone(), adapter.scale)).collect();
        (self.merged.parts, self.merged.notes) = (weights.parts, weights.notes);
        Ok(self)
    }

    /// Reports of merged adapters of diffusion models.
    pub fn merge_notes(&self) -> &[String] {
        &self.merged.notes
    }

    /// The adapters that are merged, with their scales.
    pub fn adapters(&self) -> &[(Adapter, f64)] {
        &self.adapters
    }

    /// The metadata of the model with its adapters.
    pub fn metadata(&self) -> Metadata {
        let mut metadata = self.model.metadata().clone();
        let adapters = self.adapters.iter().map(|(adapter, scale)| (adapter.path(), *scale));
        add_merged_keys(&mut metadata, adapters, None);
        let merged = self.merged.adapters.iter().map(|(path, scale)| (path.as_path(), *scale));
        add_adapter_list(&mut metadata, merged);
        metadata
    }

    /// True if an adapter changes a tensor.
    fn is_adapted(&self, tensor: &str) -> bool {
        self.merged.tensors.contains_key(tensor)
            || self.adapters.iter().any(|(adapter, _)| adapter.changes(tensor))
    }

    fn rows<'a>(&'a self, file: &'a File, tensor: &'a TensorInfo) -> Result<Box<dyn RowSource + 'a>, Error> {
        let rows = GgufRows::new(file, tensor);
        if let Some(tensor) = self.merged.tensors.get(&tensor.name) {
            return Ok(Box::new(MergedRows { base: rows, parts: &self.merged.parts, tensor }));
        }
        let mut pairs = Vec::new();
        for (adapter, scale) in &self.adapters {
            pairs.extend(adapter.pair(&tensor.name, tensor.shape)?.map(|pair| (pair, *scale)));
        }
        Ok(if pairs.is_empty() {
            Box::new(rows)
        } else {
            Box::new(AdaptedRows::new(rows, tensor.shape.dim(1), pairs.into_iter()))
        })
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

/// Dimensions of a tensor in torch's order: the original ones, if the file states them.
fn torch_shape(metadata: &Metadata, tensor: &TensorInfo) -> Vec<u64> {
    let stored: Vec<u64> = tensor.shape.dims().iter().rev().copied().collect();
    let Some(Value::Array(Array::I32(original))) =
        metadata.get(&format!("{ORIGINAL_SHAPE_KEY}{}", tensor.name))
    else {
        return stored;
    };
    let original: Vec<u64> = original.iter().map(|size| u64::try_from(*size).unwrap_or(0)).collect();
    let n_elems = original.iter().try_fold(1u64, |n, size| n.checked_mul(*size));
    if n_elems == Some(tensor.shape.n_elems()) { original } else { stored }
}

impl Input for ModelInput {
    fn tensors(&self, _: &Recipe) -> Vec<TensorFacts<'_>> {
        let tensors = self.model.tensors().map(|(_, tensor)| tensor);
        tensors
            .map(|tensor| TensorFacts { name: &tensor.name, shape: tensor.shape, dtype: tensor.dtype })
            .collect()
    }

    fn sources(&self) -> Vec<Mapped> {
        let files = [&self.model].into_iter().chain(self.adapters.iter().map(|(adapter, _)| adapter.model()));
        let own = files.flat_map(|model| model.shards()).map(|(_, file)| file.bytes().clone());
        own.chain(self.merged.parts.iter().filter_map(|part| part.local().cloned())).collect()
    }

    fn file_name(&self, file: &PlannedFile) -> String {
        gguf_layout::default_file_name(&self.metadata(), file.recipe.canonical_name())
    }

    fn check_output(&self, path: &Path, force: bool) -> Result<(), Error> {
        let merged = self.merged.adapters.iter().map(|(path, _)| path.as_path());
        let adapters = self.adapters.iter().map(|(adapter, _)| adapter.path()).chain(merged);
        check_output_file(path, &self.paths().into_iter().chain(adapters).collect::<Vec<_>>(), force)
    }

    fn plan(&self, output: &OutputRequest, request: &Request<'_>) -> Result<Vec<PlannedFile>, Error> {
        let (model, recipe) = (&self.model, output.recipe);
        let tensors = self.tensors(recipe);
        let shards = model.shards().iter().enumerate();
        let source = |shard| Source { shard, ..Source::default() };
        let sources: Vec<Source> =
            shards.flat_map(|(shard, (_, file))| file.tensors().iter().map(move |_| source(shard))).collect();
        let shapes = tensors.iter().map(|tensor| (tensor.name, tensor.shape));
        let is_diffusion = self.families.diffusion_file(model.metadata(), shapes).is_some();
        let order = if is_diffusion {
            // Some rules count tensors in the order of the file.
            (0..tensors.len()).collect()
        } else if request.shards == Shards::Kept {
            // In file order: tensors of one shard stay together.
            let offsets: Vec<u64> = model.tensors().map(|(_, tensor)| tensor.offset).collect();
            let mut order: Vec<usize> = (0..tensors.len()).collect();
            order.sort_by_key(|&index| (sources[index].shard, offsets[index]));
            order
        } else {
            reference_order(&tensors.iter().map(|tensor| tensor.name).collect::<Vec<_>>())
        };
        let file_type =
            // A copied file keeps its file type.
            if recipe.copy { stored_file_type(model.metadata(), &tensors) } else { recipe.file_type.id() };
        let metadata = if is_diffusion {
            diffusion_metadata(&self.metadata(), (!recipe.copy).then_some(file_type))
        } else {
            quantized_metadata(&self.metadata(), file_type, ZeroBytes::EndText)
        };
        let (families, tensors) = (&self.families, &tensors);
        let base = Base { families, metadata, tensors, order, converted: false, sources };
        let files = files::plan(&base, output, request)?;
        for choice in files.iter().filter(|_| !request.allow_requantize).flat_map(|file| &file.choices) {
            // Also if the type stays: the values change.
            let TensorFacts { name, dtype, .. } = tensors[choice.tensor];
            if dtype.is_quantized() && self.is_adapted(name) {
                return Err(Error::Requantize { tensor: name.to_owned(), from: dtype, to: choice.dtype });
            }
        }
        Ok(files)
    }

    fn tasks<'a>(&'a self, _: &Request<'_>) -> Result<Vec<TensorTask<'a>>, Error> {
        // Directly from the stored type to the target, without an intermediate type.
        let task = |(file, tensor): (&'a File, &'a TensorInfo)| {
            Ok(TensorTask::new(tensor.name.clone(), self.rows(file, tensor)?))
        };
        self.model.tensors().map(task).collect()
    }
}

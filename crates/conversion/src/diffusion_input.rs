//! From a checkpoint of a diffusion model to planned files.
//!
//! A float file in the checkpoint's most frequent type matches `tools/convert.py` of
//! city96/ComfyUI-GGUF@795e451 (for video models, including the tensors that `tools/fix_5d_tensors.py` adds,
//! in their place). In a quantized file, tensors that are not quantized have the types of that float file.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use gguf_checkpoint::{Checkpoint, Folder, Tensor, Tensors};
use gguf_container::{Mapped, safe_file_name};
use gguf_layout::{DiffusionClaims, DiffusionFloat, DiffusionLayout, DiffusionSource, Families, Layout};
use gguf_types::DType;

use crate::{
    Error,
    checkpoint_input::layout_tasks,
    files::{self, Base, Source},
    input::Input,
    job::TensorTask,
    merge::{LoraAdapter, ModuleNames, add_adapter_list, merge_diffusion},
    output::check_output_file,
    planned::PlannedFile,
    recipes::{QUANTIZATION_VERSION, Recipe, TensorFacts},
    request::{OutputRequest, Request},
};

/// Requests for the file of a diffusion model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DiffusionOptions<'a> {
    /// Architecture that replaces the detected one.
    pub arch_as: Option<&'a str>,
    /// True to keep the shapes of UNets, which stable-diffusion.cpp and diffusers need.
    pub no_reshape: bool,
}

/// A checkpoint of a diffusion model and the layout of its file.
#[derive(Debug)]
pub struct DiffusionInput {
    families: Families,
    paths: Vec<PathBuf>,
    /// Its tensors are named like in the file.
    checkpoint: Checkpoint,
    model: DiffusionLayout,
}

impl DiffusionInput {
    /// Opens a file or a folder ([`gguf_checkpoint::open_diffusion`]).
    ///
    /// # Errors
    /// [`Error::Source`], [`Error::Arch`].
    pub fn open(families: Families, folder: &Folder) -> Result<DiffusionInput, Error> {
        DiffusionInput::open_with_adapters(families, folder, &[], DiffusionOptions::default())
    }

    /// Opens a file or a folder and merges adapters in order.
    ///
    /// # Errors
    /// Those of [`DiffusionInput::open`], and [`Error::Merge`].
    pub fn open_with_adapters(
        families: Families,
        folder: &Folder,
        adapters: &[LoraAdapter],
        options: DiffusionOptions<'_>,
    ) -> Result<DiffusionInput, Error> {
        let checkpoint = gguf_checkpoint::open_diffusion(folder)?;
        let mut paths = checkpoint.diffusion_paths(folder.path());
        paths.extend(adapters.iter().map(|adapter| adapter.folder.path().to_owned()));
        let input = DiffusionInput::with_adapters(families, checkpoint, adapters, options)?;
        Ok(DiffusionInput { paths, ..input })
    }

    fn with_adapters(
        families: Families,
        checkpoint: Checkpoint,
        adapters: &[LoraAdapter],
        options: DiffusionOptions<'_>,
    ) -> Result<DiffusionInput, Error> {
        let class = checkpoint.config.get("_class_name").and_then(serde_json::Value::as_str);
        let claims = DiffusionClaims { class, arch_as: options.arch_as };
        let mut part = gguf_layout::find_diffusion(&families, &sources(&checkpoint), claims)?;
        part.reshapes &= !options.no_reshape;
        let checkpoint = decoded(checkpoint, part.prefix)?;
        // Taken before the merge adds files of adapters, whose entries are not keys of the model.
        let entries: BTreeMap<String, String> =
            checkpoint.parts.iter().flat_map(|part| part.metadata.clone()).collect();
        let names = ModuleNames { prefix: part.prefix, stages: part.row.stages() };
        let checkpoint = merge_diffusion(checkpoint, adapters, names)
            .map_err(|(folder, error)| Error::Merge { folder, error })?;
        let mut model = gguf_layout::resolve_diffusion(part, &sources(&checkpoint), &entries)?;
        let merged = adapters.iter().map(|adapter| (adapter.name.as_path(), adapter.scale));
        add_adapter_list(&mut model.layout.metadata, merged);
        Ok(DiffusionInput { families, paths: Vec::new(), checkpoint, model })
    }

    /// The checkpoint.
    pub fn checkpoint(&self) -> &Checkpoint {
        &self.checkpoint
    }

    /// Metadata and tensors.
    pub fn layout(&self) -> &Layout {
        &self.model.layout
    }

    /// The weights files.
    pub fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// The type that a float file usually has.
    pub fn usual(&self) -> DType {
        self.model.usual
    }

    /// Type of a tensor in a float file, or before it is quantized.
    fn float(&self, float: DiffusionFloat, recipe: &Recipe) -> DType {
        let usual = self.model.usual;
        float.dtype(if recipe.default.is_float() { recipe.default } else { usual }, usual)
    }
}

fn sources(checkpoint: &Checkpoint) -> Vec<DiffusionSource> {
    // The type of a decoded tensor is that of the codes.
    let dtype = |tensor: &Tensor| {
        let codes = tensor.stored.as_ref().and_then(|stored| stored.codes());
        codes.unwrap_or(tensor.dtype).name()
    };
    let source = |tensor: &Tensor| DiffusionSource {
        name: tensor.name.clone(),
        shape: tensor.shape.clone(),
        dtype: dtype(tensor),
    };
    checkpoint.tensors.iter().map(source).collect()
}

/// Decodes the codes of the diffusion model; other models in the file are left as they are.
fn decoded(mut checkpoint: Checkpoint, prefix: &str) -> Result<Checkpoint, Error> {
    let all = std::mem::take(&mut checkpoint.tensors).to_vec();
    let (own, others): (Vec<Tensor>, Vec<Tensor>) =
        all.into_iter().partition(|tensor| tensor.name.starts_with(prefix));
    checkpoint.tensors = Tensors::from(own);
    let mut checkpoint = checkpoint.decode_diffusion()?;
    let all = [checkpoint.tensors.to_vec(), others].concat();
    checkpoint.tensors = Tensors::from(all);
    Ok(checkpoint)
}

impl Input for DiffusionInput {
    fn tensors(&self, recipe: &Recipe) -> Vec<TensorFacts<'_>> {
        let tensors = self.model.layout.tensors.iter().zip(&self.model.floats);
        tensors
            .map(|(tensor, float)| TensorFacts {
                name: &tensor.name,
                shape: tensor.shape,
                dtype: self.float(*float, recipe),
            })
            .collect()
    }

    fn sources(&self) -> Vec<Mapped> {
        self.checkpoint.parts.iter().filter_map(|part| part.local().cloned()).collect()
    }

    fn file_name(&self, file: &PlannedFile) -> String {
        let name = gguf_container::NameParts {
            model_name: Some(&self.checkpoint.folder_name),
            output_type: Some(file.recipe.canonical_name()),
            ..gguf_container::NameParts::default()
        };
        safe_file_name(&name)
    }

    fn has_originals(&self) -> bool {
        true
    }

    fn check_output(&self, path: &Path, force: bool) -> Result<(), Error> {
        let paths: Vec<&Path> = self.paths.iter().map(PathBuf::as_path).collect();
        check_output_file(path, &paths, force)
    }

    fn plan(&self, output: &OutputRequest, request: &Request<'_>) -> Result<Vec<PlannedFile>, Error> {
        let recipe = output.recipe;
        if recipe.copy {
            return Err(Error::CopyOfCheckpoint);
        }
        let tensors = self.tensors(recipe);
        let mut metadata = self.model.layout.metadata.clone();
        metadata.set("general.quantization_version", QUANTIZATION_VERSION);
        metadata.set("general.file_type", recipe.file_type.id());
        let source = |tensor: &gguf_layout::OutTensor| Source {
            is_fp8: tensor.data.sources().first().is_some_and(|name| self.is_fp8(name)),
            ..Source::default()
        };
        let base = Base {
            families: &self.families,
            metadata,
            tensors: &tensors,
            order: (0..tensors.len()).collect(),
            converted: recipe.default.is_float(),
            sources: self.model.layout.tensors.iter().map(source).collect(),
        };
        files::plan(&base, output, request)
    }

    fn tasks<'a>(&'a self, request: &Request<'_>) -> Result<Vec<TensorTask<'a>>, Error> {
        layout_tasks(&self.checkpoint, &self.model.layout, request.via, &[])
    }
}

impl DiffusionInput {
    fn is_fp8(&self, name: &str) -> bool {
        self.checkpoint.tensor(name).is_some_and(Tensor::is_fp8)
    }
}

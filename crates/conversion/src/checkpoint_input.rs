//! From a checkpoint to planned files: every dtype and offset is fixed before any weight is read.
//!
//! Float files (F32, F16, BF16) match the reference's converter. All other files match its two steps,
//! converter at bf16 and then `llama-quantize`: tensors in the order of the second step, its keys at the end.
//! Values go straight from the checkpoint's type to the target. For bf16 checkpoints, skipping the
//! intermediate file loses no bits; for others [`via`](crate::TensorTask::via) reproduces its rounding.
//!
//! Source: `ModelBase.prepare_tensors` and `prepare_metadata` in `conversion/base.py`,
//! `llama_model_quantize_impl` in `src/llama-quant.cpp`, llama.cpp as vendored in llama-cpp-python 0.3.36.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use gguf_checkpoint::{Checkpoint, Folder};
use gguf_container::{Mapped, Metadata};
use gguf_layout::{Data, ElementMap, Families, FloatType, Layout, OutTensor, RowMap};
use gguf_types::DType;

use crate::{
    Error,
    files::{self, Base, Source},
    input::Input,
    job::TensorTask,
    merge::{LoraAdapter, add_merged_keys, merge},
    output::{check_output, check_output_file},
    planned::{FileOf, PlannedFile},
    recipes::{
        FileType, QUANTIZATION_VERSION, Recipe, TensorFacts, ZeroBytes, quantized_metadata, reference_order,
    },
    repack::{self, Repacked},
    request::{OutputRequest, Request, Shards},
    resolve::{arch_input, normalized, resolve, resolve_projector},
    rows::{
        CheckpointRows, ColumnRows, CombinedRows, ExtendedRows, IntegerRows, RowSource, RowsFor,
        ScatteredRows, SideBySideRows, ValueRows,
    },
};

/// A checkpoint folder and its layout.
#[derive(Debug)]
pub struct CheckpointInput {
    /// Folders that are read: that of the checkpoint, unless it is in memory, and those of adapters.
    folders: Vec<PathBuf>,
    checkpoint: Checkpoint,
    families: Families,
    layout: Layout,
    projector: Option<Layout>,
    /// Cached result of [`CheckpointInput::repacked`].
    repacked: OnceLock<Vec<Repacked>>,
}

impl CheckpointInput {
    /// Opens and resolves a folder.
    ///
    /// # Errors
    /// [`Error::Source`], [`Error::Arch`], [`Error::Shape`].
    pub fn open(folder: impl Into<Folder>, options: &gguf_layout::Options) -> Result<CheckpointInput, Error> {
        CheckpointInput::open_with_adapters(folder, &[], options, None)
    }

    /// Opens a folder, merges adapters in order, and resolves the result, as the architecture `custom` if
    /// given.
    ///
    /// # Errors
    /// Those of [`CheckpointInput::open`], and [`Error::Merge`].
    pub fn open_with_adapters(
        folder: impl Into<Folder>,
        adapters: &[LoraAdapter],
        options: &gguf_layout::Options,
        custom: Option<&'static gguf_layout::Arch>,
    ) -> Result<CheckpointInput, Error> {
        let folder = folder.into();
        let checkpoint = gguf_checkpoint::open_text(folder.clone())?;
        let input = CheckpointInput::with_adapters(checkpoint, adapters, options, custom)?;
        Ok(input.read_from(&folder, adapters))
    }

    /// Resolves an open checkpoint, for example one in memory ([`gguf_checkpoint::open_memory`]), as the
    /// architecture `custom` if given. Outputs may be written to the folder of its files.
    ///
    /// # Errors
    /// [`Error::Source`], [`Error::Arch`], [`Error::Shape`].
    pub fn from_checkpoint(
        checkpoint: Checkpoint,
        options: &gguf_layout::Options,
        custom: Option<&'static gguf_layout::Arch>,
    ) -> Result<CheckpointInput, Error> {
        CheckpointInput::with_adapters(checkpoint, &[], options, custom)
    }

    pub(crate) fn with_adapters(
        checkpoint: Checkpoint,
        adapters: &[LoraAdapter],
        options: &gguf_layout::Options,
        custom: Option<&'static gguf_layout::Arch>,
    ) -> Result<CheckpointInput, Error> {
        // A custom architecture refers to tensors by their names in the files.
        let checkpoint = if custom.is_some() { checkpoint } else { normalized(checkpoint, options)? };
        let checkpoint =
            merge(checkpoint, adapters).map_err(|(folder, error)| Error::Merge { folder, error })?;
        // The name applies to the merged model; the base model keeps its own.
        let model_name = options.model_name.clone().filter(|_| adapters.is_empty());
        let name = options.model_name.as_deref();
        let options = &gguf_layout::Options { model_name, ..options.clone() };
        let mut layout = match custom {
            Some(custom) => gguf_layout::resolve_as(&arch_input(&checkpoint)?, options, custom)?,
            None => resolve(&checkpoint, options)?,
        };
        let merged = adapters.iter().map(|adapter| (adapter.name.as_path(), adapter.scale));
        add_merged_keys(&mut layout.metadata, merged, name);
        Ok(CheckpointInput::from_layout(options.families, checkpoint, layout))
    }

    /// Records the folders that the input was read from.
    pub(crate) fn read_from(self, folder: &Folder, adapters: &[LoraAdapter]) -> CheckpointInput {
        let adapters = adapters.iter().map(|adapter| &adapter.folder);
        let folders = [folder].into_iter().chain(adapters).map(|folder| folder.path().to_owned()).collect();
        CheckpointInput { folders, ..self }
    }

    fn from_layout(families: Families, checkpoint: Checkpoint, layout: Layout) -> CheckpointInput {
        let (folders, repacked) = (Vec::new(), OnceLock::new());
        CheckpointInput { folders, families, checkpoint, layout, projector: None, repacked }
    }

    /// Opens a folder and resolves only its projector.
    pub fn open_projector(
        folder: impl Into<Folder>,
        options: &gguf_layout::Options,
    ) -> Result<CheckpointInput, Error> {
        let folder = folder.into();
        let checkpoint = normalized(gguf_checkpoint::open_text(folder.clone())?, options)?;
        let layout = resolve_projector(&checkpoint, options)?;
        Ok(CheckpointInput::from_layout(options.families, checkpoint, layout).read_from(&folder, &[]))
    }

    /// Adds the model's projector, for [`OutputRequest::projector`].
    ///
    /// # Errors
    /// [`Error::Arch`], [`Error::Source`].
    pub fn with_projector(self, options: &gguf_layout::Options) -> Result<CheckpointInput, Error> {
        let projector = Some(resolve_projector(&self.checkpoint, options)?);
        Ok(CheckpointInput { projector, ..self })
    }

    /// Layout of the projector, if it was requested.
    pub fn projector(&self) -> Option<&Layout> {
        self.projector.as_ref()
    }

    /// Checkpoint that is read.
    pub fn checkpoint(&self) -> &Checkpoint {
        &self.checkpoint
    }

    /// Layout of the checkpoint.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// For each tensor of the layout, whether ggml blocks can represent its codes exactly. The first call
    /// reads all scales.
    ///
    /// # Errors
    /// [`Error::Read`].
    pub fn repacked(&self) -> Result<&[Repacked], Error> {
        if let Some(repacked) = self.repacked.get() {
            return Ok(repacked);
        }
        let repacked = repack::repacked(&self.checkpoint, &self.layout)?;
        Ok(self.repacked.get_or_init(|| repacked))
    }

    /// Block types that can store the codes of each tensor, if codes are to be kept.
    fn stored_dtypes(&self, request: &Request<'_>) -> Result<Vec<Option<DType>>, Error> {
        if request.repack {
            Ok(self.repacked()?.iter().map(Repacked::dtype).collect())
        } else {
            Ok(Vec::new())
        }
    }

    /// Type that a tensor has in every float file.
    ///
    /// Source: `DeepseekV4Model.tensor_force_quant` in `conversion/deepseek.py`.
    fn forced(&self, tensor: &OutTensor) -> Option<DType> {
        if !self.layout.source_types || tensor.stored_dtype.is_some() {
            return None;
        }
        let source = || match &tensor.data {
            Data::Rows { sources, .. } => self.checkpoint.tensor(sources.first()?).map(|source| source.dtype),
            _ => None,
        };
        match () {
            // Comes first: a norm is F32 even if it is stored as FP8.
            () if tensor.shape.n_dims() <= 1 || tensor.name.ends_with("_norm.weight") => Some(DType::F32),
            () if self.is_fp8(tensor) => Some(DType::Q8_0),
            () => match source()? {
                gguf_checkpoint::Dtype::F32 => Some(DType::F32),
                gguf_checkpoint::Dtype::BF16 => Some(DType::BF16),
                _ => None,
            },
        }
    }

    /// True if a tensor of the layout is made from 8-bit floats with scales. The last of several sources
    /// decides, like in the reference, which identifies a stack by it.
    pub fn is_fp8(&self, tensor: &OutTensor) -> bool {
        let source = match &tensor.data {
            Data::Rows { sources, .. } => sources.last(),
            Data::Columns { source, .. } => Some(source),
            _ => None,
        };
        source.and_then(|name| self.checkpoint.tensor(name)).is_some_and(gguf_checkpoint::Tensor::is_fp8)
    }
}

impl Input for CheckpointInput {
    fn tensors(&self, recipe: &Recipe) -> Vec<TensorFacts<'_>> {
        let layouts = [Some(&self.layout), self.projector.as_ref()].into_iter().flatten();
        layouts.flat_map(|layout| layout_tensors(layout, float_of(recipe))).collect()
    }

    fn sources(&self) -> Vec<Mapped> {
        self.checkpoint.parts.iter().filter_map(|part| part.local().cloned()).collect()
    }

    /// Name of a file of unquantized weights, chosen like the reference's converter.
    fn file_name(&self, file: &PlannedFile) -> String {
        let recipe = file.recipe;
        let layout = self.projector.as_ref().filter(|_| file.of == FileOf::Projector).unwrap_or(&self.layout);
        if layout.architecture == gguf_layout::PROJECTOR_ARCHITECTURE {
            return gguf_layout::projector_file_name(&layout.metadata, recipe.canonical_name());
        }
        let packed = layout.packed_file_type.filter(|_| is_converted(recipe));
        let type_name = packed.map_or(recipe.canonical_name(), |(_, name)| name);
        if layout.prediction_only {
            gguf_layout::prediction_file_name(&layout.metadata, type_name)
        } else {
            gguf_layout::default_file_name(&layout.metadata, type_name)
        }
    }

    fn has_originals(&self) -> bool {
        true
    }

    fn check_output(&self, path: &Path, force: bool) -> Result<(), Error> {
        // A model in one file may be next to its output.
        let (files, folders): (Vec<&PathBuf>, Vec<&PathBuf>) =
            self.folders.iter().partition(|folder| folder.is_file());
        folders.into_iter().try_for_each(|folder| check_output(path, folder, force))?;
        // If no folder is read, still check the one that is written to.
        check_output_file(path, &files.into_iter().map(PathBuf::as_path).collect::<Vec<_>>(), force)
    }

    fn plan(&self, output: &OutputRequest, request: &Request<'_>) -> Result<Vec<PlannedFile>, Error> {
        if output.recipe.copy {
            return Err(Error::CopyOfCheckpoint);
        }
        match (&self.projector, output.of) {
            (Some(projector), FileOf::Projector) => {
                // Names of layers, keys and importance data of the model do not apply to the projector.
                let plain = Request {
                    importance: None,
                    prune: BTreeSet::new(),
                    keys: Vec::new(),
                    shards: Shards::One,
                    ..request.clone()
                };
                let mut files = plan_layout(&self.families, projector, Vec::new(), output, &plain)?;
                for file in &mut files {
                    file.of = FileOf::Projector;
                    // Tasks of the projector follow those of the model, and choices count both.
                    file.choices.iter_mut().for_each(|choice| choice.tensor += self.layout.tensors.len());
                }
                Ok(files)
            }
            _ => {
                let (converted, stored) = (is_converted(output.recipe), self.stored_dtypes(request)?);
                let source = |(index, tensor): (usize, &OutTensor)| Source {
                    is_fp8: self.is_fp8(tensor),
                    repacked: stored.get(index).copied().flatten(),
                    forced: if converted { self.forced(tensor) } else { None },
                    shard: 0,
                };
                let sources = self.layout.tensors.iter().enumerate().map(source).collect();
                plan_layout(&self.families, &self.layout, sources, output, request)
            }
        }
    }

    fn tasks<'a>(&'a self, request: &Request<'_>) -> Result<Vec<TensorTask<'a>>, Error> {
        let mut tasks =
            layout_tasks(&self.checkpoint, &self.layout, request.via, &self.stored_dtypes(request)?)?;
        if let Some(projector) = &self.projector {
            tasks.extend(layout_tasks(&self.checkpoint, projector, request.via, &[])?);
        }
        Ok(tasks)
    }
}

fn plan_layout(
    families: &Families,
    layout: &Layout,
    sources: Vec<Source>,
    output: &OutputRequest,
    request: &Request<'_>,
) -> Result<Vec<PlannedFile>, Error> {
    let recipe = output.recipe;
    let converted = is_converted(recipe);
    let tensors = layout_tensors(layout, float_of(recipe));
    let (metadata, order) = if converted {
        let file_type = layout.packed_file_type.map_or(recipe.file_type.id(), |(id, _)| id);
        // The converter writes tensors as it finds them; llama-quantize sorts them.
        (converted_metadata(layout, file_type), (0..tensors.len()).collect())
    } else {
        // The reference's intermediate file is bf16; its keys pass through llama-quantize, which moves two to
        // the end.
        let metadata = converted_metadata(layout, FileType::BF16.id());
        let names: Vec<&str> = tensors.iter().map(|tensor| tensor.name).collect();
        let metadata = quantized_metadata(&metadata, recipe.file_type.id(), ZeroBytes::EndText);
        (metadata, reference_order(&names))
    };
    let base = Base { families, metadata, tensors: &tensors, order, converted, sources };
    files::plan(&base, output, request)
}

/// Type that the converter would write: the target itself, or bf16 as input of llama-quantize.
fn float_of(recipe: &Recipe) -> DType {
    if is_converted(recipe) { recipe.default } else { DType::BF16 }
}

/// True if the reference makes files of the recipe with its converter only.
fn is_converted(recipe: &Recipe) -> bool {
    matches!(recipe.file_type, FileType::F32 | FileType::F16 | FileType::BF16)
}

/// Facts about a layout's tensors for recipes, as written by the converter.
pub(crate) fn layout_tensors(layout: &Layout, float: DType) -> Vec<TensorFacts<'_>> {
    let tensors = layout.tensors.iter();
    tensors
        .map(|OutTensor { name, shape, float: own, stored_dtype, .. }| TensorFacts {
            name,
            shape: *shape,
            dtype: stored_dtype.unwrap_or_else(|| own.dtype(float)),
        })
        .collect()
}

/// A layout's keys with the values that depend on the recipe.
pub(crate) fn converted_metadata(layout: &Layout, file_type: u32) -> Metadata {
    let mut metadata = layout.metadata.clone();
    if metadata.contains("general.file_type") {
        metadata.set("general.file_type", file_type);
    }
    metadata.set("general.quantization_version", QUANTIZATION_VERSION);
    metadata
}

/// One task per tensor of a layout, in the order of the checkpoint. `stored_dtypes` are the block types for
/// codes that are kept; it is empty if no codes are kept.
///
/// # Errors
/// [`Error::NoSuchTensor`] and [`Error::RowsDiffer`] if layout and checkpoint disagree.
pub(crate) fn layout_tasks<'a>(
    checkpoint: &'a Checkpoint,
    layout: &'a Layout,
    via: Option<DType>,
    stored_dtypes: &[Option<DType>],
) -> Result<Vec<TensorTask<'a>>, Error> {
    let task = |(index, tensor): (usize, &'a OutTensor)| {
        let stored_dtype = tensor.stored_dtype.or(stored_dtypes.get(index).copied().flatten());
        // Tensors that the converter keeps in f32 or as blocks are not rounded to an intermediate type; those
        // that it always stores in f16 are.
        let via = match tensor.float {
            FloatType::F16 => Some(DType::F16),
            FloatType::OfFile => via.filter(|_| stored_dtype.is_none()),
            FloatType::F32 | FloatType::F16OrF32 => None,
        };
        Ok(TensorTask::rounded(tensor.name.clone(), rows_of(checkpoint, tensor, stored_dtype)?, via))
    };
    layout.tensors.iter().enumerate().map(task).collect()
}

/// Chooses the row source for a layout's kind of data.
fn rows_of<'a>(
    checkpoint: &'a Checkpoint,
    tensor: &'a OutTensor,
    stored_dtype: Option<DType>,
) -> Result<Box<dyn RowSource + 'a>, Error> {
    let rows_for = |map, element| RowsFor {
        checkpoint,
        tensor: &tensor.name,
        view: tensor.row_view(),
        map,
        element,
        stored_dtype,
    };
    Ok(match &tensor.data {
        Data::Computed(values) => Box::new(ValueRows(values)),
        Data::Combined { sources, rows, by } => {
            Box::new(CombinedRows::new(|map| rows_for(map, ElementMap::Identity), sources, rows, *by)?)
        }
        Data::Extended { sources } => {
            Box::new(ExtendedRows::new(rows_for(RowMap::Concat, ElementMap::Identity), sources)?)
        }
        Data::SideBySide { sources } => {
            Box::new(SideBySideRows::new(rows_for(RowMap::Concat, ElementMap::Identity), sources)?)
        }
        Data::Scattered { source, rows } => {
            Box::new(ScatteredRows::new(rows_for(RowMap::Concat, ElementMap::Identity), source, rows)?)
        }
        Data::Integers { values, .. } => {
            Box::new(IntegerRows { values, view: tensor.row_view(), dtype: tensor.stored_dtype })
        }
        Data::Rows { sources, rows, element } => {
            Box::new(CheckpointRows::new(rows_for(*rows, *element), sources)?)
        }
        Data::Columns { source, matrix, rows, element } => {
            Box::new(ColumnRows::new(rows_for(*rows, *element), source, *matrix)?)
        }
    })
}

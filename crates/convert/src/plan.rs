//! From a checkpoint to planned files: every dtype and every offset, before a weight is read.
//!
//! Float files (F32, F16, BF16) are those of the reference's converter. All other files are those
//! of its two steps, converter at bf16 and then `llama-quantize`: tensors in the order of the
//! second, its keys at the end. The values themselves go straight from the checkpoint's type to
//! the target; where that type is bf16 nothing is lost by leaving out the step between, and for
//! others [`via`](crate::Work::via) brings its rounding back.
//!
//! Source: `ModelBase.prepare_tensors` and `prepare_metadata` in `conversion/base.py`,
//! `llama_model_quantize_impl` in `src/llama-quant.cpp`, llama.cpp as vendored in
//! llama-cpp-python 0.3.36.

use arch::{Data, Layout, OutTensor};
use gguf::{Metadata, Plan};
use source::Checkpoint;
use tensor::DType;

use crate::{
    CheckpointRows, ColumnRows, Error, PackedRows, Request, TensorRows, Work,
    files::{self, Base},
    recipes::{
        Fallback, FileType, QUANTIZATION_VERSION, Reason, Recipe, TensorFacts, ZeroBytes, quantized_metadata,
        reference_order,
    },
};

/// One file to be written, with every offset fixed.
#[derive(Debug, Clone)]
pub struct PlannedFile {
    /// What it was planned by.
    pub recipe: &'static Recipe,
    /// Header, offsets, length.
    pub plan: Plan,
    /// What became of each tensor, in the order of the file.
    pub choices: Vec<Choice>,
    /// Its number, from 1, and the number of all where it is a shard.
    pub shard: Option<(u32, u32)>,
}

/// What becomes of one tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    /// Index into the tensors that the plan was made of.
    pub tensor: usize,
    /// The dtype that it gets.
    pub dtype: DType,
    /// What decided.
    pub reason: Reason,
    /// The dtype that its row length did not allow, if that happened.
    pub fallback: Option<Fallback>,
    /// The dtype that it would have with importance weights, which it lacks.
    pub raised_from: Option<DType>,
    /// Whether it cannot be encoded without an importance matrix.
    pub requires_imatrix: bool,
}

impl PlannedFile {
    /// Bits stored for each weight (scales included, padding and header not).
    pub fn bits_per_weight(&self) -> f64 {
        let n_elems: u64 = self.plan.tensors().iter().map(|tensor| tensor.shape.n_elems()).sum();
        let n_bytes: u64 = self.plan.tensors().iter().map(|tensor| tensor.n_bytes).sum();
        tensor::bits_per_weight(n_elems, n_bytes)
    }
}

/// Checks that every dtype of a plan can be written, before anything is.
///
/// # Errors
/// [`Error::NeedsImatrix`], [`Error::NotInImatrix`], [`Error::Imatrix`], [`Error::Encode`] where
/// there is no codec.
pub fn check_ready(layout: &Layout, file: &PlannedFile, request: &Request<'_>) -> Result<(), Error> {
    files::check(file, &layout_tensors(layout, float_of(file.recipe)), request, false)
}

/// A checkpoint as architectures see it.
///
/// # Errors
/// [`Error::Shape`] for a tensor of more dimensions than ggml has.
pub fn arch_input(checkpoint: &Checkpoint) -> Result<arch::Input<'_>, Error> {
    let tensor = |tensor: &source::Tensor| {
        let name = tensor.name.clone();
        match tensor.shape() {
            Ok(shape) => Ok(arch::SourceTensor { name, shape }),
            Err(source) => Err(Error::Shape { tensor: name, source }),
        }
    };
    let same = |a: &str, b: &str| match (checkpoint.tensor(a), checkpoint.tensor(b)) {
        (Some(a), Some(b)) => {
            a.dtype == b.dtype && a.shape == b.shape && checkpoint.view(a).bytes == checkpoint.view(b).bytes
        }
        _ => false,
    };
    Ok(arch::Input {
        same: Some(arch::SameValues::new(same)),
        config: checkpoint.config.clone(),
        generation_config: checkpoint.generation_config.clone(),
        files: checkpoint.files.iter().map(|(name, bytes)| (name.clone(), bytes.as_slice())).collect(),
        card: checkpoint.card.clone(),
        folder_name: checkpoint.folder_name.clone(),
        tensors: checkpoint.tensors.iter().map(tensor).collect::<Result<_, _>>()?,
    })
}

/// Resolves a checkpoint.
///
/// # Errors
/// As [`arch_input`], and [`Error::Arch`].
pub fn resolve(checkpoint: &Checkpoint, options: &arch::Options) -> Result<Layout, Error> {
    arch::resolve(&arch_input(checkpoint)?, options).map_err(Error::Arch)
}

/// What the converter would write: the target itself, or bf16 for llama-quantize to read.
fn float_of(recipe: &Recipe) -> DType {
    if is_converted(recipe) { recipe.default } else { DType::BF16 }
}

/// Whether a recipe's files are those of the reference's converter alone.
fn is_converted(recipe: &Recipe) -> bool {
    matches!(recipe.file_type, FileType::F32 | FileType::F16 | FileType::BF16)
}

/// What recipes need to know of a layout's tensors, as the converter would write them.
fn layout_tensors(layout: &Layout, float: DType) -> Vec<TensorFacts<'_>> {
    let tensors = layout.tensors.iter();
    tensors
        .map(|OutTensor { name, shape, keep_f32, data }| TensorFacts {
            name,
            shape: *shape,
            dtype: match data {
                Data::Mxfp4 { .. } => DType::MXFP4,
                _ if *keep_f32 => DType::F32,
                _ => float,
            },
        })
        .collect()
}

/// Plans the file of one recipe, or its shards. [`Choice::tensor`] is an index into the
/// layout's tensors.
///
/// # Errors
/// [`Error::CopyOfCheckpoint`] for the recipe that only copies, [`Error::Recipe`],
/// [`Error::Gguf`], and what is wrong with the request.
pub fn plan_files(
    layout: &Layout,
    recipe: &'static Recipe,
    request: &Request<'_>,
) -> Result<Vec<PlannedFile>, Error> {
    if recipe.copy {
        return Err(Error::CopyOfCheckpoint);
    }
    let converted = is_converted(recipe);
    let tensors = layout_tensors(layout, float_of(recipe));
    let (metadata, order) = if converted {
        let file_type = layout.packed_file_type.map_or(recipe.file_type.id(), |(id, _)| id);
        (converted_metadata(layout, file_type), (0..tensors.len()).collect())
    } else {
        let metadata = converted_metadata(layout, FileType::BF16.id());
        let names: Vec<&str> = tensors.iter().map(|tensor| tensor.name).collect();
        let metadata = quantized_metadata(&metadata, recipe.file_type.id(), ZeroBytes::EndText);
        (metadata, reference_order(&names))
    };
    let base = Base { recipe, metadata, tensors: &tensors, order, converted, shard_of: None };
    files::plan(&base, request)
}

/// The name of a recipe's file type in the default name of a file: that of weights that stay as
/// they are where the reference's converter says so.
pub fn file_type_name(layout: &Layout, recipe: &Recipe) -> &'static str {
    let own = recipe.alias_of.unwrap_or(recipe.name);
    layout.packed_file_type.filter(|_| is_converted(recipe)).map_or(own, |(_, name)| name)
}

/// A layout's keys with those of the file type where the converter has them.
pub(crate) fn converted_metadata(layout: &Layout, file_type: u32) -> Metadata {
    let mut metadata = layout.metadata.clone();
    let file_type = layout.file_type_at.map(|at| (at, "general.file_type", file_type));
    let version = (layout.quantization_version_at, "general.quantization_version", QUANTIZATION_VERSION);
    let mut insert: Vec<(usize, &str, u32)> = file_type.into_iter().chain([version]).collect();
    // From the back, so that the first does not move the place of the second; of two at the same
    // place the file type comes first, hence goes in last.
    insert.sort_by_key(|(at, ..)| *at);
    for (at, key, value) in insert.into_iter().rev() {
        metadata.set_at(at, key, value);
    }
    metadata
}

/// The work of writing `files`, all planned from this layout: one entry for each tensor in the
/// layout's order, which is that of the checkpoint, with one target for each file. `ones` is what
/// [`crate::ones_for`] gives.
///
/// # Errors
/// [`Error::NoSuchTensor`] and [`Error::RowsDiffer`] where layout and checkpoint disagree,
/// [`Error::Imatrix`].
pub fn works<'a>(
    checkpoint: &'a Checkpoint,
    layout: &'a Layout,
    files: &[PlannedFile],
    via: Option<DType>,
    request: &Request<'a>,
    ones: &'a [f32],
) -> Result<Vec<Work<'a>>, Error> {
    let mut works = layout
        .tensors
        .iter()
        .map(|tensor| {
            let rows = match &tensor.data {
                Data::Computed(values) => TensorRows::Values(values),
                Data::Rows { sources, rows, element } => {
                    let view = tensor.row_view();
                    let made = CheckpointRows::new(checkpoint, &tensor.name, sources, *rows, *element, view);
                    TensorRows::Checkpoint(made?)
                }
                Data::Columns { source, matrix, rows, element } => {
                    let view = tensor.row_view();
                    let made =
                        ColumnRows::new(checkpoint, &tensor.name, source, *matrix, *rows, *element, view);
                    TensorRows::Columns(made?)
                }
                Data::Mxfp4 { codes, scales, rows } => {
                    let view = tensor.row_view();
                    TensorRows::Packed(PackedRows::new(
                        checkpoint,
                        &tensor.name,
                        [codes, scales],
                        *rows,
                        view,
                    )?)
                }
            };
            let via = via.filter(|_| !tensor.keep_f32 && rows.raw_dtype() != Some(DType::MXFP4));
            Ok(Work { via, ..Work::new(tensor.name.clone(), rows) })
        })
        .collect::<Result<Vec<Work<'_>>, Error>>()?;
    // The types that are copied need no weights, so that it does not matter which they are here.
    let tensors = layout_tensors(layout, DType::BF16);
    files::add_targets(&mut works, files, &tensors, request, ones)?;
    Ok(works)
}

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
use gguf::{DEFAULT_ALIGNMENT, Endian, Metadata, Plan, Value};
use source::Checkpoint;
use tensor::{DType, Shape};

use crate::{
    CheckpointRows, Error, Target, TensorRows, Work,
    recipes::{
        Fallback, FileType, ModelFacts, Overrides, QUANTIZATION_VERSION, Reason, Recipe, TensorFacts,
        ZeroBytes, assign, quantized_metadata, reference_order,
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
    /// Whether it cannot be encoded without an importance matrix.
    pub requires_imatrix: bool,
}

impl PlannedFile {
    /// Bits stored for each weight (scales included, padding and header not).
    pub fn bits_per_weight(&self) -> f64 {
        let n_elems: u64 = self.plan.tensors().iter().map(|tensor| tensor.shape.n_elems()).sum();
        let n_bytes: u64 = self.plan.tensors().iter().map(|tensor| tensor.n_bytes).sum();
        if n_elems == 0 { 0.0 } else { n_bytes as f64 * 8.0 / n_elems as f64 }
    }
}

/// Checks that every dtype of a plan can be written, before anything is.
///
/// # Errors
/// [`Error::NeedsImatrix`], [`Error::Encode`] where there is no codec.
pub fn check_ready(layout: &Layout, file: &PlannedFile) -> Result<(), Error> {
    for choice in &file.choices {
        let (tensor, dtype) = (&layout.tensors[choice.tensor].name, choice.dtype);
        if choice.requires_imatrix {
            return Err(Error::NeedsImatrix { tensor: tensor.clone(), dtype, recipe: file.recipe.name });
        }
        if quant::codec(dtype).is_none_or(|codec| codec.encode.is_none()) {
            let error = quant::EncodeError::NoCodec { dtype, verb: "encode" };
            return Err(Error::Encode { tensor: tensor.clone(), error });
        }
    }
    Ok(())
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
    Ok(arch::Input {
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

/// Whether a recipe's files are those of the reference's converter alone.
fn is_converted(recipe: &Recipe) -> bool {
    matches!(recipe.file_type, FileType::F32 | FileType::F16 | FileType::BF16)
}

/// Plans the file of one recipe.
///
/// # Errors
/// [`Error::CopyOfCheckpoint`] for the recipe that only copies, [`Error::Recipe`],
/// [`Error::Gguf`].
pub fn plan_file(
    layout: &Layout,
    recipe: &'static Recipe,
    overrides: &Overrides,
) -> Result<PlannedFile, Error> {
    if recipe.copy {
        return Err(Error::CopyOfCheckpoint);
    }
    let converted = is_converted(recipe);
    // What the converter would write: the target itself, or bf16 for llama-quantize to read.
    let (float, file_type) =
        if converted { (recipe.default, recipe.file_type) } else { (DType::BF16, FileType::BF16) };
    let metadata = converted_metadata(layout, file_type);
    let order = if converted {
        (0..layout.tensors.len()).collect()
    } else {
        reference_order(&layout.tensors.iter().map(|tensor| tensor.name.as_str()).collect::<Vec<_>>())
    };
    let facts: Vec<TensorFacts<'_>> = order
        .iter()
        .map(|&index| {
            let OutTensor { name, shape, keep_f32, .. } = &layout.tensors[index];
            TensorFacts { name, shape: *shape, dtype: if *keep_f32 { DType::F32 } else { float } }
        })
        .collect();
    let model = ModelFacts::from_metadata(&metadata).map_err(Error::Recipe)?;
    let mut assignments = assign(recipe, &model, &facts, overrides).map_err(Error::Recipe)?;
    if converted {
        // The converter keeps more tensors in f32 than recipes leave alone.
        for (assignment, facts) in assignments.iter_mut().zip(&facts) {
            if facts.dtype == DType::F32 && assignment.reason == Reason::Default {
                assignment.dtype = DType::F32;
            }
        }
    }
    let metadata = if converted {
        metadata
    } else {
        quantized_metadata(&metadata, recipe.file_type.id(), ZeroBytes::EndText)
    };
    let choices: Vec<Choice> = order
        .iter()
        .zip(&assignments)
        .map(|(&tensor, made)| Choice {
            tensor,
            dtype: made.dtype,
            reason: made.reason,
            fallback: made.fallback,
            requires_imatrix: made.requires_imatrix,
        })
        .collect();
    let tensors = facts
        .iter()
        .zip(&choices)
        .map(|(facts, choice)| {
            // gguf-py writes dimensions as they are, gguf.cpp leaves trailing ones out.
            let shape = if converted { Ok(facts.shape) } else { without_trailing_ones(facts.shape) };
            let shape = shape.map_err(|source| Error::Shape { tensor: facts.name.to_owned(), source })?;
            Ok((facts.name.to_owned(), shape, choice.dtype))
        })
        .collect::<Result<Vec<_>, Error>>()?;
    let plan = Plan::new(&metadata, tensors, Endian::Little, DEFAULT_ALIGNMENT).map_err(Error::Gguf)?;
    Ok(PlannedFile { recipe, plan, choices })
}

/// The dimensions that `gguf.cpp` writes.
pub(crate) fn without_trailing_ones(shape: Shape) -> Result<Shape, tensor::ShapeError> {
    let dims: Vec<u64> = (0..shape.n_dims_effective()).map(|i| shape.dim(i)).collect();
    // A shape of no dimensions has one element.
    Shape::new(&dims)
}

/// A layout's keys with those of the file type where the converter has them.
fn converted_metadata(layout: &Layout, file_type: FileType) -> Metadata {
    let mut metadata = layout.metadata.clone();
    let mut insert = [
        (layout.file_type_at, "general.file_type", file_type.id()),
        (layout.quantization_version_at, "general.quantization_version", QUANTIZATION_VERSION),
    ];
    // From the back, so that the first does not move the place of the second; of two at the same
    // place the file type comes first, hence goes in last.
    insert.sort_by_key(|(at, ..)| *at);
    for (at, key, value) in insert.into_iter().rev() {
        metadata.insert(at.min(metadata.len()), (key.to_owned(), Value::U32(value)));
    }
    metadata
}

/// The work of writing `files`, all planned from this layout: one entry for each tensor in the
/// layout's order, which is that of the checkpoint, with one target for each file.
///
/// # Errors
/// [`Error::NoSuchTensor`] and [`Error::RowsDiffer`] where layout and checkpoint disagree.
pub fn works<'a>(
    checkpoint: &'a Checkpoint,
    layout: &'a Layout,
    files: &[PlannedFile],
    via: Option<DType>,
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
            };
            let via = via.filter(|_| !tensor.keep_f32);
            Ok(Work { name: tensor.name.clone(), rows, weights: None, via, targets: Vec::new() })
        })
        .collect::<Result<Vec<Work<'_>>, Error>>()?;
    for (output, file) in files.iter().enumerate() {
        for (choice, planned) in file.choices.iter().zip(file.plan.tensors()) {
            let target = Target { output, dtype: choice.dtype, offset: planned.offset };
            works[choice.tensor].targets.push(target);
        }
    }
    Ok(works)
}

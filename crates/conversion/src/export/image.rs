//! Export of an image, video or sound model: one safetensors file with the tensors under their own names.
//!
//! Tensors have the order of the GGUF file, so that converting the result gives that order again.

use std::path::Path;

use gguf_checkpoint::safetensors_header;
use gguf_container::{Array, Endian, File, KeyError, Output, TensorInfo, Value};
use gguf_layout::{Diffusion, Families, ORIGINAL_SHAPE_KEY, export::ExportError as LayoutError};
use gguf_types::{DType, Shape, counted, list_names};

use super::{error::ExportError, values_of};
use crate::{
    Error, GgufRows, JOB_ELEMS, RunOptions, Schedule, Target, TensorTask, Watch,
    output::{self, check_output_file},
    run,
};

/// Keys that follow from the tensors, which a conversion sets again.
const DERIVED: [&str; 3] = ["general.quantization_version", "general.file_type", "general.alignment"];

/// Entry of a safetensors header that is not a tensor.
const METADATA: &str = "__metadata__";

/// A safetensors file before it is written.
#[derive(Debug, Clone)]
pub struct ImagePlan {
    /// The length of the header, then the header.
    header: Vec<u8>,
    /// Type of each tensor and its first byte, in the order of the GGUF file.
    tensors: Vec<(DType, u64)>,
    /// Bytes of the file.
    pub n_bytes: u64,
    /// Notes for the user.
    pub notes: Vec<String>,
}

impl ImagePlan {
    /// Number of tensors.
    pub fn n_tensors(&self) -> usize {
        self.tensors.len()
    }
}

/// Plans the file for the GGUF file of an image, video or sound model. Small F32 tensors are read, because they stay F32 if `dtype`
/// cannot represent their values.
///
/// # Errors
/// [`ExportError::Dtype`], [`ExportError::Layout`], [`ExportError::Convert`].
pub fn plan_image(families: &Families, file: &File, dtype: DType) -> Result<ImagePlan, ExportError> {
    if !dtype.is_float() || dtype == DType::F64 {
        return Err(ExportError::Dtype { dtype });
    }
    let names = file.tensors().iter().map(|tensor| (tensor.name.as_str(), tensor.shape));
    let found = families.diffusion_file(file.metadata(), names);
    let row = found.and_then(|found| found.row).unwrap_or_else(Diffusion::generic);
    let (mut entries, mut kept) = (Vec::new(), Vec::new());
    for tensor in file.tensors() {
        if tensor.name == METADATA {
            return Err(layout(LayoutError::UnusedTensors { names: vec![tensor.name.clone()] }));
        }
        let shape = original_shape(file, tensor)?;
        let stays = tensor.dtype == DType::F32
            && row.is_small(&tensor.name, &shape)
            && !(dtype == DType::F32 || dtype == DType::BF16 && fits_bf16(file, tensor)?);
        if stays {
            kept.push(tensor.name.as_str());
        }
        entries.push((tensor.name.as_str(), shape, if stays { DType::F32 } else { dtype }));
    }
    let (texts, lost) = keys(file);
    let mut notes = Vec::new();
    if !kept.is_empty() {
        let n_kept = counted(kept.len(), "tensor");
        notes.push(format!("{n_kept} written as F32, as in the file: {}", list_names(&kept)));
    }
    if !lost.is_empty() {
        notes
            .push(format!("not written, because safetensors metadata has only texts: {}", list_names(&lost)));
    }
    let size = |tensor: &str| {
        let tensor = tensor.to_owned();
        move |source| Error::Gguf(gguf_container::Error::Shape { tensor, source })
    };
    let written = entries.iter().map(|(name, shape, dtype)| (*name, shape, *dtype));
    let header = safetensors_header(&texts, written).map_err(size(METADATA))?;
    let mut n_bytes = header.len() as u64;
    let mut tensors = Vec::with_capacity(entries.len());
    for (name, shape, dtype) in &entries {
        tensors.push((*dtype, n_bytes));
        n_bytes = n_bytes.saturating_add(shape.n_bytes(*dtype).map_err(size(name))?);
    }
    Ok(ImagePlan { header, tensors, n_bytes, notes })
}

/// Writes the file. `input` is the path of `file`.
///
/// # Errors
/// [`ExportError::Convert`]; partial output is removed.
pub fn write_image(
    file: &File,
    input: &Path,
    plan: &ImagePlan,
    path: &Path,
    force: bool,
    options: &RunOptions,
    watch: Watch<'_>,
) -> Result<(), ExportError> {
    check_output_file(path, &[input], force)?;
    let opened = Output::create(path, plan.n_bytes, force).map_err(Error::from)?;
    opened.write_at(0, &plan.header).map_err(Error::from)?;
    let mut tasks = Vec::with_capacity(plan.tensors.len());
    // Rows of the GGUF file: a reshaped tensor has the same elements in the same order.
    let tensors = file.tensors().iter().zip(&plan.tensors);
    for (tensor, (dtype, offset)) in tensors.filter(|(tensor, _)| tensor.shape.n_elems() > 0) {
        let mut task = TensorTask::new(tensor.name.clone(), Box::new(GgufRows::new(file, tensor)));
        let (dtype, endian, offset) = (*dtype, Endian::Little, *offset);
        task.targets.push(Target { output: 0, dtype, endian, offset, weights: None });
        tasks.push(task);
    }
    let outputs = vec![opened];
    run(&tasks, &Schedule::new(&tasks, JOB_ELEMS), &outputs, options, watch)?;
    Ok(output::finish(outputs, watch)?)
}

/// The shape that a key states for a tensor in rows of 256, or that of the tensor.
fn original_shape(file: &File, tensor: &TensorInfo) -> Result<Shape, ExportError> {
    let key = format!("{ORIGINAL_SHAPE_KEY}{}", tensor.name);
    let Some(value) = file.metadata().get(&key) else { return Ok(tensor.shape) };
    let dims = match value {
        Value::Array(Array::I32(dims)) => dims.iter().map(|dim| u64::try_from(*dim).ok()).collect(),
        _ => None,
    };
    let shape = dims.and_then(|dims: Vec<u64>| Shape::from_row_major(&dims).ok());
    let shape = shape.filter(|shape| shape.n_elems() == tensor.shape.n_elems());
    let expected = || format!("the shape of a tensor with {} elements", tensor.shape.n_elems());
    shape.ok_or_else(|| layout(LayoutError::Key(KeyError::value(key, expected(), value))))
}

/// True if all values of an F32 tensor are bf16 values.
fn fits_bf16(file: &File, tensor: &TensorInfo) -> Result<bool, ExportError> {
    Ok(values_of(file, tensor)?.iter().all(|value| value.to_bits() & 0xffff == 0))
}

/// Texts of the metadata, and keys with other values that a conversion does not set again.
fn keys(file: &File) -> (Vec<(&str, &str)>, Vec<&str>) {
    let (mut texts, mut lost) = (Vec::new(), Vec::new());
    for (key, value) in file.metadata().iter() {
        let shaped = key.strip_prefix(ORIGINAL_SHAPE_KEY).is_some_and(|name| file.tensor(name).is_some());
        match value.as_str() {
            Some(text) => texts.push((key.as_str(), text)),
            None if shaped || DERIVED.contains(&key.as_str()) || key.starts_with("split.") => {}
            None => lost.push(key.as_str()),
        }
    }
    // Readers of safetensors files check it.
    texts.push(("format", "pt"));
    (texts, lost)
}

fn layout(error: LayoutError) -> ExportError {
    ExportError::Layout(error)
}

//! Export: a GGUF file becomes a Hugging Face folder.
//!
//! [`plan`] decides everything without reading weights; [`write()`] runs the same jobs as a conversion, with
//! headers that are fixed in advance. The folder gets its name when it is complete. A file of an image, video or sound model becomes
//! one safetensors file ([`plan_image`], [`write_image`]).

mod error;
mod folder;
mod image;
mod rows;
mod safetensors;

use std::path::Path;

use gguf_container::{Endian, File, Output, TensorInfo, check_open_files};
use gguf_layout::{
    Families,
    export::{ExportLayout, GgufInput},
};
use gguf_types::DType;

use crate::{
    Error, GgufRows, JOB_ELEMS, RowSource, RunOptions, Schedule, Target, TensorTask, Watch, output, run,
};
pub use error::ExportError;
use folder::Folder;
pub use image::{ImagePlan, plan_image, write_image};
pub use rows::ExportRows;
pub use safetensors::Shard;

/// Contents of the folder.
#[derive(Debug, Clone, Copy)]
pub struct ExportOptions {
    /// Type of the weights: F32, F16 or BF16.
    pub dtype: DType,
    /// Maximum bytes of weights per file.
    pub shard_bytes: u64,
}

impl Default for ExportOptions {
    /// bf16, in files of 5 GB, the default of transformers.
    fn default() -> ExportOptions {
        ExportOptions { dtype: DType::BF16, shard_bytes: 5_000_000_000 }
    }
}

/// A folder before it is written.
#[derive(Debug, Clone)]
pub struct ExportPlan {
    /// Small files, tensors and notes for the user.
    pub layout: ExportLayout,
    /// Weights files.
    pub shards: Vec<Shard>,
    /// Type of the weights.
    pub dtype: DType,
}

impl ExportPlan {
    /// Bytes of all files of the folder.
    pub fn n_bytes(&self) -> u64 {
        let small: u64 = self.layout.files.iter().map(|(_, bytes)| bytes.len() as u64).sum();
        small + self.shards.iter().map(|shard| shard.n_bytes).sum::<u64>()
    }
}

/// Plans the folder for a file. The only tensor read is `rope_freqs.weight`.
///
/// # Errors
/// [`ExportError::Dtype`], [`ExportError::Layout`], [`ExportError::Convert`].
pub fn plan(families: &Families, file: &File, options: &ExportOptions) -> Result<ExportPlan, ExportError> {
    let dtype = options.dtype;
    let torch = match dtype {
        DType::F32 => "float32",
        DType::F16 => "float16",
        DType::BF16 => "bfloat16",
        _ => return Err(ExportError::Dtype { dtype }),
    };
    let input = GgufInput {
        metadata: file.metadata(),
        tensors: file.tensors().iter().map(|tensor| (tensor.name.clone(), tensor.shape)).collect(),
        rope_freqs: small(file, "rope_freqs.weight")?,
        rope_factors: small(file, "rope_factors_long.weight")?
            .zip(small(file, "rope_factors_short.weight")?)
            .map(|(long, short)| [long, short]),
        dtype: torch,
    };
    let mut layout = gguf_layout::export::resolve(families, &input).map_err(ExportError::Layout)?;
    let size =
        |source| Error::Gguf(gguf_container::Error::Shape { tensor: "model.safetensors".to_owned(), source });
    let shards = safetensors::shards(&layout.tensors, dtype, options.shard_bytes).map_err(size)?;
    if let Some(index) = safetensors::index(&layout.tensors, &shards) {
        layout.files.push((safetensors::INDEX.to_owned(), index));
    }
    Ok(ExportPlan { layout, shards, dtype })
}

/// Values of a small tensor that the config is made from.
fn small(file: &File, name: &str) -> Result<Option<Vec<f32>>, ExportError> {
    file.tensor(name).map(|tensor| values_of(file, tensor)).transpose()
}

/// All values of a tensor.
fn values_of(file: &File, tensor: &TensorInfo) -> Result<Vec<f32>, ExportError> {
    // The header was checked, so this size is that of the data.
    let mut values = vec![0.0; tensor.shape.n_elems() as usize];
    GgufRows::new(file, tensor).read(0..tensor.shape.n_rows(), gguf_quant::Level::Scalar, &mut values)?;
    Ok(values)
}

/// Bytes of input that [`write()`] covers, for progress.
pub fn input_bytes(file: &File) -> u64 {
    file.tensors().iter().map(|tensor| tensor.n_bytes).sum()
}

/// Writes the folder. `input` is the path of `file`; with `force`, an older folder with a config.json is
/// replaced once the new one is complete.
///
/// # Errors
/// [`ExportError`]; partial output is removed.
pub fn write(
    file: &File,
    input: &Path,
    plan: &ExportPlan,
    dir: &Path,
    force: bool,
    options: &RunOptions,
    watch: Watch<'_>,
) -> Result<(), ExportError> {
    check_open_files(plan.shards.len()).map_err(Error::from)?;
    let folder = Folder::create(dir, input, force)?;
    for (name, bytes) in &plan.layout.files {
        folder.write(name, bytes)?;
    }
    let mut tasks = Vec::with_capacity(plan.layout.tensors.len());
    let mut outputs = Vec::with_capacity(plan.shards.len());
    for (output, shard) in plan.shards.iter().enumerate() {
        let opened = Output::create(&folder.path(&shard.file), shard.n_bytes, false).map_err(Error::from)?;
        opened.write_at(0, &shard.header).map_err(Error::from)?;
        outputs.push(opened);
        for (index, offset) in &shard.tensors {
            let tensor = &plan.layout.tensors[*index];
            let mut task = TensorTask::new(tensor.name.clone(), Box::new(ExportRows::new(file, tensor)?));
            // Safetensors files have one byte order.
            let (dtype, endian, offset) = (plan.dtype, Endian::Little, *offset);
            task.targets.push(Target { output, dtype, endian, offset, weights: None });
            tasks.push(task);
        }
    }
    run(&tasks, &Schedule::new(&tasks, JOB_ELEMS), &outputs, options, watch)?;
    output::finish(outputs, watch)?;
    folder.finish(input)
}

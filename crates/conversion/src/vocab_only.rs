//! Files with metadata only: general facts, hyperparameters and tokenizer.
//!
//! Source: `TextModel.write_vocab` in `conversion/base.py` of llama.cpp, as vendored in llama-cpp-python
//! 0.3.36.

use std::path::Path;

use gguf_checkpoint::{Checkpoint, Dtype};
use gguf_container::{DEFAULT_ALIGNMENT, Endian, Output, Plan};
use gguf_layout::Layout;

use crate::{Error, checkpoint_input::converted_metadata, recipes::FileType};

/// The reference's default file type: that of the first weight with more than one dimension that is bf16 or
/// f16, else f16.
pub fn guessed_file_type(checkpoint: &Checkpoint) -> FileType {
    let matrices = checkpoint.tensors.iter().filter(|tensor| tensor.shape.len() >= 2);
    let guessed = matrices.filter_map(|tensor| match tensor.dtype {
        Dtype::BF16 => Some(FileType::BF16),
        Dtype::F16 => Some(FileType::F16),
        _ => None,
    });
    guessed.into_iter().next().unwrap_or(FileType::F16)
}

/// Plans the file of a layout without tensors.
///
/// # Errors
/// [`Error::Gguf`].
pub fn plan_vocab(layout: &Layout, file_type: FileType, endian: Endian) -> Result<Plan, Error> {
    let metadata = converted_metadata(layout, file_type.id());
    Ok(Plan::new(&metadata, Vec::new(), endian, DEFAULT_ALIGNMENT)?)
}

/// Writes the plan. Like in the reference, the file ends after the last key.
///
/// # Errors
/// [`Error::Gguf`].
pub fn write_vocab(plan: &Plan, path: &Path, force: bool) -> Result<(), Error> {
    // A header is padded for tensor data; gguf-py writes no padding without tensors.
    let bytes = plan.unpadded_header_bytes();
    let output = Output::create(path, bytes.len() as u64, force)?;
    output.write_at(0, bytes)?;
    Ok(output.finish()?)
}

//! Every way in which an importance matrix can be wrong.

use gguf_types::DType;

/// Errors of an importance matrix, or of its use for a model.
///
/// The caller that opened the file adds its path once.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImatrixError {
    /// The file is wrong.
    #[error(transparent)]
    File(gguf_imatrix::Error),
    /// A weight that no mean square can be: infinite, NaN or negative.
    #[error("entry `{entry}`: weight {index} is {value}, expected a finite number of at least 0")]
    Invalid {
        /// The entry.
        entry: String,
        /// Index, from 0, over all experts.
        index: usize,
        /// The value.
        value: f32,
    },
    /// An entry of another shape than the tensor of its name: most likely of another model.
    #[error("tensor `{tensor}`: expected {expected} values in the importance matrix, found {found}")]
    WrongSize {
        /// The tensor.
        tensor: String,
        /// Row length times experts.
        expected: u64,
        /// Values in the entry.
        found: u64,
    },
    /// No entry could stand in for a missing one.
    #[error(
        "tensor `{tensor}`: type {dtype} needs importance data, and no other layer has an entry of its size"
    )]
    NoNeighbour {
        /// The tensor.
        tensor: String,
        /// The dtype.
        dtype: DType,
    },
}

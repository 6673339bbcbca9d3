//! Every way in which an importance matrix can be wrong.

use gguf_types::DType;

/// Errors of an importance matrix, or of its use for a model.
///
/// The caller that opened the file adds its path once.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum ImatrixError {
    /// The file is wrong.
    #[error(transparent)]
    File(gguf_imatrix::Error),
    /// A weight that no mean square can be: infinite, NaN or negative.
    #[error("entry `{entry}`: weight {index} is {value}, expected a finite number of at least 0")]
    Invalid {
        entry: String,
        /// Index, from 0, over all experts.
        index: usize,
        value: f32,
    },
    /// An entry of another shape than the tensor of its name: most likely of another model.
    #[error("tensor `{tensor}`: expected {expected} values in the importance matrix, found {found}")]
    WrongSize { tensor: String, expected: u64, found: u64 },
    /// No entry could stand in for a missing one.
    #[error(
        "tensor `{tensor}`: type {dtype} needs importance data, and no other layer has an entry of its size"
    )]
    NoNeighbour { tensor: String, dtype: DType },
}

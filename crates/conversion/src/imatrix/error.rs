use gguf_types::{DType, Problem};

/// Errors of an importance matrix or its use for a model. The caller that opened the file adds its path.
#[derive(Debug, thiserror::Error, gguf_types::Fields)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum ImatrixError {
    #[error(transparent)]
    File(gguf_imatrix::Error),
    /// The weight is not a mean square: infinite, NaN or negative.
    #[error("entry `{entry}`: weight {index} is {value}, expected a finite number of at least 0")]
    #[fact(tensor = entry, expected = "a finite number of at least 0", found = value)]
    Invalid {
        entry: String,
        /// Index over all experts, from 0.
        index: usize,
        value: f32,
    },
    /// The entry does not fit the shape of its tensor; it is probably from another model.
    #[error("tensor `{tensor}`: expected {expected} values in the importance matrix, found {found}")]
    WrongSize { tensor: String, expected: u64, found: u64 },
    /// No entry can replace a missing one.
    #[error(
        "tensor `{tensor}`: type {dtype} needs importance data, and no other layer has an entry of its size"
    )]
    NoNeighbour { tensor: String, dtype: DType },
}

impl Problem for ImatrixError {}

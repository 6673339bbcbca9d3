//! What the reader of a format gives.

use crate::{Part, Tensor};

/// The weights of a folder: headers only.
#[derive(Debug, Default)]
pub(crate) struct Weights {
    /// Weights files, in the order of the reference.
    pub parts: Vec<Part>,
    /// Tensors, in the order of the reference.
    pub tensors: Vec<Tensor>,
    /// What is odd and no reason to stop, each one line.
    pub notes: Vec<String>,
}

//! Result of a format's reader.

use crate::{Part, Tensor};

/// Weights of a folder: headers only.
#[derive(Debug, Default)]
pub(crate) struct Weights {
    /// Weights files, in the order of the reference.
    pub parts: Vec<Part>,
    /// Tensors, in the order of the reference.
    pub tensors: Vec<Tensor>,
    /// Peculiarities that do not prevent reading, one per line.
    pub notes: Vec<String>,
}

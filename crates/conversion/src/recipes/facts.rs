//! Input and result of recipes for one tensor.

use gguf_types::{DType, Shape};

use super::{Fallback, Reason};

/// Properties of a tensor that recipes depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TensorFacts<'a> {
    /// Name in GGUF.
    pub name: &'a str,
    /// Shape, row length first.
    pub shape: Shape,
    /// Current dtype.
    pub dtype: DType,
}

/// Type assigned to a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Assignment {
    /// Chosen dtype.
    pub dtype: DType,
    /// Reason for the type.
    pub reason: Reason,
    /// Fallback, if the row length did not allow the chosen dtype.
    pub fallback: Option<Fallback>,
    /// True if the tensor cannot be encoded without an importance matrix. Without any matrix, the reference
    /// refuses such a tensor even if it already has this dtype; with one, it refuses a tensor without an
    /// entry, unless it already has this dtype.
    pub requires_imatrix: bool,
}

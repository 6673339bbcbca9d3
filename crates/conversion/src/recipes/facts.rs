//! Input and result of recipes for one tensor.

use gguf_types::{DType, Shape};

use super::{Fallback, Reason};

/// Properties of a tensor that recipes depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TensorFacts<'a> {
    /// The name in GGUF.
    pub name: &'a str,
    /// The shape, row length first.
    pub shape: Shape,
    /// The dtype that it has now.
    pub dtype: DType,
}

/// Type assigned to a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Assignment {
    /// The dtype that it gets.
    pub dtype: DType,
    /// Reason for the type.
    pub reason: Reason,
    /// The dtype that its row length did not allow, if that happened.
    pub fallback: Option<Fallback>,
    /// True if the tensor cannot be encoded without an importance matrix. Without any importance matrix, the
    /// reference refuses such a tensor at once, even one that already has this dtype; with one, it refuses a
    /// tensor that the matrix lacks, unless the tensor already has this dtype.
    pub requires_imatrix: bool,
}

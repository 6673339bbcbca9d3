//! What recipes know of a tensor, and what they make of it.

use tensor::{DType, Shape};

use super::{Fallback, Reason};

/// What recipes need to know of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TensorFacts<'a> {
    /// The name in GGUF.
    pub name: &'a str,
    /// The shape, row length first.
    pub shape: Shape,
    /// The dtype that it has now.
    pub dtype: DType,
}

/// What becomes of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Assignment {
    /// The dtype that it gets.
    pub dtype: DType,
    /// What decided.
    pub reason: Reason,
    /// The dtype that its row length did not allow, if that happened.
    pub fallback: Option<Fallback>,
    /// Whether it cannot be encoded without an importance matrix. The reference refuses such a
    /// tensor at once when it has no importance matrix at all, even one that already is of
    /// this dtype; when it has one, it refuses a tensor that the matrix says nothing about,
    /// unless the tensor already is of this dtype.
    pub requires_imatrix: bool,
}

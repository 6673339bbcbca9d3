//! Files before they are written, with fixed dtypes and offsets.

use gguf_container::Plan;
use gguf_types::DType;

use crate::recipes::{Fallback, Reason, Recipe};

/// File of an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FileOf {
    /// The model, or the only file.
    #[default]
    Model,
    /// The projector.
    Projector,
}

/// A file to be written, with fixed offsets.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PlannedFile {
    /// Recipe of the plan.
    pub recipe: &'static Recipe,
    /// File of the input.
    pub of: FileOf,
    /// Header, offsets, length.
    pub plan: Plan,
    /// Choice for each tensor, in file order.
    pub choices: Vec<Choice>,
    /// Shard number, from 1, and number of shards.
    pub shard: Option<(u32, u32)>,
    /// Changes that no key can describe. Only the first shard has them.
    pub warnings: Vec<String>,
    /// True for a diffusion model.
    pub is_diffusion: bool,
}

/// Type of one tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Choice {
    /// Index into the tensors that the plan was made from.
    pub tensor: usize,
    /// Chosen dtype.
    pub dtype: DType,
    /// Reason for the choice.
    pub reason: Reason,
    /// Fallback, if the row length did not allow the chosen dtype.
    pub fallback: Option<Fallback>,
    /// The dtype that it would get with importance weights, which are missing.
    pub raised_from: Option<DType>,
    /// True if it cannot be encoded without an importance matrix.
    pub requires_imatrix: bool,
}

impl PlannedFile {
    /// Bits stored per weight, including scales but not padding and header.
    pub fn bits_per_weight(&self) -> f64 {
        let n_elems: u64 = self.plan.tensors().iter().map(|tensor| tensor.shape.n_elems()).sum();
        gguf_types::bits_per_weight(n_elems, self.plan.tensor_bytes())
    }
}

//! Files before they are written: every dtype and every offset.

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

/// One file to be written, with every offset fixed.
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
    /// Its number, from 1, and the number of all where it is a shard.
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
    /// Index into the tensors that the plan was made of.
    pub tensor: usize,
    /// The dtype that it gets.
    pub dtype: DType,
    /// Reason for the choice.
    pub reason: Reason,
    /// The dtype that its row length did not allow, if that happened.
    pub fallback: Option<Fallback>,
    /// The dtype that it would have with importance weights, which it lacks.
    pub raised_from: Option<DType>,
    /// True if it cannot be encoded without an importance matrix.
    pub requires_imatrix: bool,
}

impl PlannedFile {
    /// Bits stored for each weight (scales included, padding and header not).
    pub fn bits_per_weight(&self) -> f64 {
        let n_elems: u64 = self.plan.tensors().iter().map(|tensor| tensor.shape.n_elems()).sum();
        let n_bytes: u64 = self.plan.tensors().iter().map(|tensor| tensor.n_bytes).sum();
        gguf_types::bits_per_weight(n_elems, n_bytes)
    }
}

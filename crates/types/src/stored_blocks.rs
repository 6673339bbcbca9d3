//! Quantized blocks with separate factors.

use crate::DType;

/// Blocks that a file holds unchanged, and their factors.
///
/// The blocks encode `value / scales`; the factors are separate tensors in the output.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredBlocks {
    /// The type of the blocks.
    pub dtype: DType,
    /// The factor of the whole tensor; one for each matrix where there are several.
    pub scales: Vec<f32>,
    /// The factor of what the tensor is multiplied with, in the same way.
    pub input_scales: Vec<f32>,
    /// True if activations must not be rounded to 4 bits.
    pub wide_activations: bool,
}

impl StoredBlocks {
    /// The same of one matrix of a stack.
    pub fn matrix(&self, index: u64) -> StoredBlocks {
        // One factor holds for each of them.
        let own = |factors: &[f32]| match factors {
            [_] | [] => factors.to_vec(),
            factors => factors.get(index as usize).copied().into_iter().collect(),
        };
        let (scales, input_scales) = (own(&self.scales), own(&self.input_scales));
        StoredBlocks { scales, input_scales, ..self.clone() }
    }
}

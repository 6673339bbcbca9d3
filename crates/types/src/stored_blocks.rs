//! Quantized blocks with separate factors.

use crate::DType;

/// Blocks that a file stores unchanged, and their factors.
///
/// The blocks encode `value / scales`; the factors are separate tensors in the output.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredBlocks {
    /// The type of the blocks.
    pub dtype: DType,
    /// Factor of the tensor, or one for each matrix of a stack.
    pub scales: Vec<f32>,
    /// Factor of the activations, or one for each matrix of a stack.
    pub input_scales: Vec<f32>,
    /// True if activations must not be rounded to 4 bits.
    pub wide_activations: bool,
}

impl StoredBlocks {
    /// Blocks of one matrix of a stack, with its factors.
    pub fn matrix(&self, index: u64) -> StoredBlocks {
        // A single factor applies to all matrices.
        let own = |factors: &[f32]| match factors {
            [_] | [] => factors.to_vec(),
            factors => factors.get(index as usize).copied().into_iter().collect(),
        };
        let (scales, input_scales) = (own(&self.scales), own(&self.input_scales));
        StoredBlocks { scales, input_scales, ..self.clone() }
    }
}

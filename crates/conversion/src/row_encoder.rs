//! Improves blocks after encoding.
//!
//! A codec sees one row and a weight per column. A row encoder that knows more about a matrix's inputs may
//! choose other levels for the same blocks: it receives the rows with their encoded blocks and changes the
//! blocks in place. Number, order and lengths of blocks stay, so plans, journals and parts only contain its
//! fingerprint.

use std::{error::Error, fmt::Debug, ops::Range};

use gguf_quant::Level;
use gguf_types::DType;

/// Consecutive rows of one tensor with the same importance weights.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct EncodedRows<'a> {
    /// Name of the tensor in the input.
    pub tensor: &'a str,
    /// Type of the blocks.
    pub dtype: DType,
    /// Row range, counted over the entire tensor, all matrices of a stack.
    pub rows: Range<u64>,
    /// Elements of a row.
    pub row_elems: usize,
    /// Encoded values: (rows, row_elems) f32, row-major.
    pub values: &'a [f32],
    /// Importance weights used by the codec: (row_elems).
    pub weights: Option<&'a [f32]>,
    /// The CPU level of the kernels.
    pub level: Level,
}

/// Improves the blocks of some tensors.
///
/// The result for a row may depend only on that row, its tensor, and the state covered by
/// [`RowEncoder::fingerprint`]: not on the thread or on which rows come together. So no byte depends on the
/// number of threads, and a run can be resumed.
pub trait RowEncoder: Debug + Sync {
    /// Fingerprint of everything that determines the blocks, besides rows and weights.
    fn fingerprint(&self) -> u64;

    /// True if it improves the tensor with this name in the input for target type `dtype`.
    fn applies_to(&self, tensor: &str, dtype: DType) -> bool;

    /// Modifies `blocks`, the codec's encoding of `rows`, in place. Called by several threads at once.
    ///
    /// # Errors
    /// Any error stops the run.
    fn encode(&self, rows: &EncodedRows<'_>, blocks: &mut [u8]) -> Result<(), Box<dyn Error + Send + Sync>>;
}

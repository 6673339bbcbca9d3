//! Blocks that somebody else makes better.
//!
//! A codec knows one row and a weight for each column. Who knows more of what goes into a matrix may choose other levels for the
//! same blocks: it gets the rows with what the codec made of them, and changes the blocks in place. Their number, their order and
//! their lengths stay, so plans, journals and parts of a run know nothing of it but a fingerprint.

use std::{error::Error, fmt::Debug, ops::Range};

use quant::Level;
use tensor::DType;

/// Neighbouring rows of one tensor with the same importance weights.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct EncodedRows<'a> {
    /// The tensor, by its name in the input.
    pub tensor: &'a str,
    /// The type of the blocks.
    pub dtype: DType,
    /// Which rows, counted over the whole tensor, all matrices of a stack.
    pub rows: Range<u64>,
    /// Elements of a row.
    pub row_elems: usize,
    /// What was encoded: (rows, row_elems) f32, row-major.
    pub values: &'a [f32],
    /// The importance weights that the codec took: (row_elems).
    pub weights: Option<&'a [f32]>,
    /// The CPU level of the kernels.
    pub level: Level,
}

/// Makes better blocks of some tensors.
///
/// What it makes of a row may depend on that row, on its tensor and on what [`RowEncoder::fingerprint`] stands for, and on nothing
/// else: not on the thread, nor on which rows come together. So no byte depends on the number of threads, and a run can go on
/// where another one was stopped.
pub trait RowEncoder: Debug + Sync {
    /// Names all that decides about its blocks beside rows and weights.
    fn fingerprint(&self) -> u64;

    /// Whether it has something to do for a tensor of this name in the input that becomes `dtype`.
    fn wants(&self, tensor: &str, dtype: DType) -> bool;

    /// Changes `blocks`, which the codec made of these rows, in place. Called by several threads at once.
    ///
    /// # Errors
    /// Whatever keeps it from it; the run stops.
    fn encode(&self, rows: &EncodedRows<'_>, blocks: &mut [u8]) -> Result<(), Box<dyn Error + Send + Sync>>;
}

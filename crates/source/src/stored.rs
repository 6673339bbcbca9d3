//! Tensors whose values do not lie in a file one after the other: codes with scales, columns, pieces of several files.

use std::{fmt, ops::Range, sync::Arc};

use tensor::DType;

use crate::{Dtype, Part, ReadError, Span};

/// How the values of one tensor are made of what its files hold.
///
/// The tensor is seen as rows of its own row length, over all outer dimensions; it is read by any rows and any
/// columns of them, from any thread. Nothing is kept between two calls, so that memory is the caller's buffer.
pub trait Stored: fmt::Debug + Send + Sync {
    /// Reads columns `columns` of rows `rows` into `out`, which is (rows, columns) f32. Both ranges are inside the
    /// tensor and `out` has their size: whoever calls has checked that.
    ///
    /// # Errors
    /// [`ReadError`]: values that make no number, such as a scale that is NaN.
    fn read(
        &self,
        parts: &[Part],
        rows: Range<u64>,
        columns: Range<u64>,
        out: &mut [f32],
    ) -> Result<(), ReadError>;

    /// The bytes that rows `rows` are made of, each once, for progress and for advice to the system.
    fn spans(&self, rows: Range<u64>) -> Vec<Span>;

    /// The type of the codes, where each value is one of them times a scale.
    fn codes(&self) -> Option<Dtype> {
        None
    }

    /// The same values for weights files that come after `n` others, if they lie in weights files by number.
    fn after_parts(&self, n: usize) -> Option<Arc<dyn Stored>> {
        let _ = n;
        None
    }

    /// How many rows are best read together, where rows do not lie one after the other: at least 1.
    fn panel_rows(&self) -> u64 {
        1
    }

    /// How the values are stored, in a word or two for reports; none where the type says it.
    fn description(&self) -> Option<String> {
        None
    }

    /// What is written of a tensor that stays in blocks whatever type is asked for, because the reference's converter
    /// leaves it so.
    fn kept(&self) -> Option<&Kept> {
        None
    }

    /// The ggml types that can hold all these values without changing one. It may take a look at all of them, so it
    /// is asked only where somebody wants to know.
    ///
    /// # Errors
    /// [`ReadError`], as for [`Stored::read`].
    fn repacks_to(&self, parts: &[Part]) -> Result<Repacks, ReadError> {
        let _ = parts;
        Ok(Repacks::Not("no type of ggml holds such values".to_owned()))
    }

    /// Rows `rows` as blocks of `dtype`, one of [`Stored::repacks_to`], appended to `out`.
    ///
    /// # Errors
    /// [`ReadError`], as for [`Stored::read`].
    fn repack(
        &self,
        parts: &[Part],
        dtype: DType,
        rows: Range<u64>,
        out: &mut Vec<u8>,
    ) -> Result<(), ReadError> {
        let _ = (parts, dtype, rows, out);
        Ok(())
    }

    /// Code, scale and offset of each element of rows `rows`: for tests of forms whose libraries round more than once.
    #[cfg(test)]
    fn pieces(&self, parts: &[Part], rows: Range<u64>) -> Result<[Vec<f32>; 3], ReadError> {
        let _ = (parts, rows);
        Ok([Vec::new(), Vec::new(), Vec::new()])
    }
}

/// Whether a ggml type can hold the values of a tensor without changing one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Repacks {
    /// These can, the smallest first.
    To(Vec<DType>),
    /// None can; the reason, for people.
    Not(String),
}

/// Blocks that a file has as they are, and the factors that stand beside them.
///
/// What the blocks mean is `value / scales`: the factors are tensors of their own in the file.
#[derive(Debug, Clone, PartialEq)]
pub struct Kept {
    /// The type of the blocks, which [`Stored::repack`] makes.
    pub dtype: DType,
    /// The factor of the whole tensor; one for each matrix where there are several.
    pub scales: Vec<f32>,
    /// The factor of what the tensor is multiplied with, in the same way.
    pub input_scales: Vec<f32>,
    /// Whether activations are not to be rounded to 4 bits.
    pub wide_activations: bool,
}

impl Kept {
    /// The same of one matrix of a stack.
    pub(crate) fn of_matrix(&self, index: u64) -> Kept {
        // One factor holds for each of them.
        let own = |factors: &[f32]| match factors {
            [_] | [] => factors.to_vec(),
            factors => factors.get(index as usize).copied().into_iter().collect(),
        };
        let (scales, input_scales) = (own(&self.scales), own(&self.input_scales));
        Kept { scales, input_scales, ..self.clone() }
    }
}

//! Tensors whose values are not consecutive in a file: codes with scales, columns, pieces of several files.

use std::{fmt, ops::Range, sync::Arc};

use gguf_types::{DType, StoredBlocks};

use crate::{Dtype, Part, ReadError, Span};

/// Some columns of some rows.
#[derive(Debug, Clone)]
pub struct Region {
    /// The rows.
    pub rows: Range<u64>,
    /// The columns.
    pub columns: Range<u64>,
}

/// Computes the values of one tensor from the contents of its files.
///
/// The tensor is viewed as rows over all outer dimensions; any rows and columns can be read from any thread.
/// Nothing is kept between two calls, so the caller's buffer is the only memory.
pub trait Stored: fmt::Debug + Send + Sync {
    /// Reads a region into `out`, which is (rows, columns) f32. The caller has checked that the region is inside the
    /// tensor and that `out` has its size.
    ///
    /// # Errors
    /// [`ReadError`]: stored bytes without a numeric value, such as a scale that is NaN.
    fn read(&self, parts: &[Part], region: Region, out: &mut [f32]) -> Result<(), ReadError>;

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

    /// Number of rows to read together if rows are not contiguous; at least 1.
    fn panel_rows(&self) -> u64 {
        1
    }

    /// Short description of the storage, for reports; `None` if the type is sufficient.
    fn description(&self) -> Option<String> {
        None
    }

    /// Blocks for a tensor that stays in blocks whatever type is requested, because the reference's converter
    /// keeps them.
    fn stored_blocks(&self) -> Option<&StoredBlocks> {
        None
    }

    /// Types of ggml that can hold all these values exactly. It may read every value, so it is only called
    /// when the answer is needed.
    ///
    /// # Errors
    /// [`ReadError`], as for [`Stored::read`].
    fn repacks_to(&self, parts: &[Part]) -> Result<Repacks, ReadError> {
        let _ = parts;
        Ok(Repacks::Not("no ggml type can hold such values".to_owned()))
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

/// Types of ggml that can hold a tensor's values exactly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Repacks {
    /// These can, the smallest first.
    To(Vec<DType>),
    /// None can; the reason, for people.
    Not(String),
}

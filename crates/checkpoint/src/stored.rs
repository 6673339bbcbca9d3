//! Tensors whose values are not consecutive in a file: codes with scales, columns, pieces of several files.

use std::{fmt, ops::Range, sync::Arc};

use gguf_types::{DType, StoredBlocks};

use crate::{Dtype, Part, ReadError, Span};

/// Some columns of some rows.
#[derive(Debug, Clone)]
pub struct Region {
    /// Row range.
    pub rows: Range<u64>,
    /// Column range.
    pub columns: Range<u64>,
}

/// Computes the values of one tensor from the contents of its files.
///
/// The tensor is viewed as rows over all outer dimensions; any rows and columns can be read from any thread.
/// Calls keep no state, so the caller's buffer is the only memory.
pub trait Stored: fmt::Debug + Send + Sync {
    /// Reads a region into `out`, which is (rows, columns) f32. The caller has checked that the region is inside the
    /// tensor and that `out` has its size.
    ///
    /// # Errors
    /// [`ReadError`]: stored bytes without a numeric value, such as a scale that is NaN.
    fn read(&self, parts: &[Part], region: Region, out: &mut [f32]) -> Result<(), ReadError>;

    /// Byte ranges that rows `rows` depend on, each once, for progress and advice to the system.
    fn spans(&self, rows: Range<u64>) -> Vec<Span>;

    /// Type of the codes, if each value is a code times a scale.
    fn codes(&self) -> Option<Dtype> {
        None
    }

    /// Copy for a list of weights files that begins with `n` other files; `None` if it does not refer to
    /// files by index.
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

    /// Blocks of a tensor that stays in blocks for any requested type, because the reference's converter
    /// keeps them.
    fn stored_blocks(&self) -> Option<&StoredBlocks> {
        None
    }

    /// ggml types that can represent all values exactly. May read every value.
    ///
    /// # Errors
    /// [`ReadError`].
    fn repacks_to(&self, parts: &[Part]) -> Result<Repacks, ReadError> {
        let _ = parts;
        Ok(Repacks::Not("no ggml type can hold such values".to_owned()))
    }

    /// Rows `rows` as blocks of `dtype`, one of [`Stored::repacks_to`], appended to `out`.
    ///
    /// # Errors
    /// [`ReadError`].
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

    /// Code, scale and offset of each element of rows `rows`, for tests of forms whose libraries round more
    /// than once.
    #[cfg(test)]
    fn pieces(&self, parts: &[Part], rows: Range<u64>) -> Result<[Vec<f32>; 3], ReadError> {
        let _ = (parts, rows);
        Ok([Vec::new(), Vec::new(), Vec::new()])
    }
}

/// ggml types that can represent a tensor's values exactly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Repacks {
    /// Suitable types, smallest first.
    To(Vec<DType>),
    /// No type; the reason, for messages.
    Not(String),
}

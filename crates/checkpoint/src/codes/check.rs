//! Checks that all parts of coded weights are large enough.

use super::{
    packing::Codes,
    strided::Strided,
    weights::{CodedWeights, Groups, Zeros},
};
use crate::{Dtype, Error, Span};

impl CodedWeights {
    /// Checks that codes, scales, zeros and offsets have the bytes that all rows and columns need, so that
    /// reads stay inside them.
    ///
    /// # Errors
    /// [`Error::PartBytes`] with the part that is too small.
    pub fn checked(self) -> Result<CodedWeights, Error> {
        let n_groups = self.n_groups();
        let codes = |codes: &Codes| {
            let needed = codes.needed_bytes().filter(|needed| *needed <= codes.matrix_bytes);
            let all = needed.and_then(|_| codes.matrix_bytes.checked_mul(self.n_matrices));
            enough(&codes.name, &codes.span, all)
        };
        let grid = |grid: &Strided, n_rows: u64, n_matrices: u64, n_groups: u64| {
            let last = |n: u64, stride: u64| n.saturating_sub(1).checked_mul(stride);
            let last = last(n_matrices, grid.matrix_stride)
                .zip(last(n_rows, grid.row_stride))
                .zip(last(n_groups, grid.group_stride))
                .and_then(|((a, b), c)| a.checked_add(b)?.checked_add(c)?.checked_add(1));
            let bytes = last.and_then(|n| grid.dtype.n_bytes(n)).filter(|_| is_number(grid.dtype));
            enough(&grid.name, &grid.span, bytes)
        };
        codes(&self.codes)?;
        for numbers in [Some(&self.scales), self.offsets.as_ref()].into_iter().flatten() {
            grid(numbers, self.n_rows, self.n_matrices, n_groups)?;
        }
        match &self.zeros {
            Zeros::Same(_) => {}
            Zeros::Codes(zeros, _) => codes(zeros)?,
            Zeros::Floats(zeros) => grid(zeros, self.n_rows, self.n_matrices, n_groups)?,
        }
        if let Groups::Index { name, span, .. } = &self.groups {
            enough(name, span, self.n_columns.checked_mul(4))?;
        }
        if let Some(fold) = &self.fold {
            grid(&fold.factors, 1, 1, self.n_columns)?;
        }
        Ok(self)
    }
}

/// True if scales can have this type: complete bytes that are numbers.
fn is_number(dtype: Dtype) -> bool {
    dtype.is_readable() && dtype.bits().is_multiple_of(8)
}

fn enough(name: &str, span: &Span, expected: Option<u64>) -> Result<(), Error> {
    let found = span.bytes.end - span.bytes.start;
    match expected {
        Some(expected) if expected <= found => Ok(()),
        _ => Err(Error::PartBytes { tensor: name.to_owned(), expected: expected.unwrap_or(u64::MAX), found }),
    }
}

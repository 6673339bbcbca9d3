//! Tensors whose rows are not consecutive in their storage: transposed, sliced, repeated.

use std::{ops::Range, sync::Arc};

use crate::{Dtype, Part, ReadError, Region, Span, Stored, Tensor, View, read_rows};

/// Number of elements that are gathered before they are converted.
const CHUNK: usize = 1024;
/// Bytes of a page: for a matrix stored by columns, each page should be read once.
const PAGE_BYTES: u64 = 4096;

pub(crate) fn transposed(matrix: Tensor) -> Tensor {
    let shape: Vec<u64> = matrix.shape.iter().rev().copied().collect();
    let strided = Strided {
        name: matrix.name.clone(),
        dtype: matrix.dtype,
        storage: matrix.span(),
        offset: 0,
        strides: vec![1, shape.first().copied().unwrap_or(1)],
        shape: shape.clone(),
    };
    Tensor { shape, begin: 0, end: 0, stored: Some(Arc::new(strided)), ..matrix }
}

/// A tensor described by its strides. Element (i, j, ..) is element offset + i strides[0] + j strides[1] + ..
/// of the storage. The caller checks that all elements are inside the storage.
#[derive(Debug, Clone)]
pub(super) struct Strided {
    /// Name, for errors.
    pub name: String,
    pub dtype: Dtype,
    pub storage: Span,
    pub offset: u64,
    /// Not empty: a scalar is never strided.
    pub shape: Vec<u64>,
    pub strides: Vec<u64>,
}

impl Strided {
    /// Element of the storage at the beginning of a row.
    fn begin(&self, row: u64) -> u64 {
        let mut left = row;
        let mut at = self.offset;
        for (size, stride) in self.shape.iter().zip(&self.strides).rev().skip(1) {
            at += left % size * stride;
            left /= size;
        }
        at
    }

    fn step(&self) -> u64 {
        match (self.shape.last(), self.strides.last()) {
            // Strides of dimensions of size one do not matter and were not checked.
            (Some(2..), Some(stride)) => *stride,
            _ => 1,
        }
    }

    /// True if columns rather than rows are contiguous.
    fn is_transposed(&self) -> bool {
        matches!(self.strides[..], [1, step] if step > 1)
    }

    /// Reads elements of the storage from `at` on.
    fn read_run(&self, bytes: &[u8], at: u64, out: &mut [f32]) -> Result<(), ReadError> {
        let item = (self.dtype.bits() / 8) as usize;
        let begin = at as usize * item;
        let bytes = &bytes[begin..begin + out.len() * item];
        self.convert(bytes, out)
    }

    fn convert(&self, bytes: &[u8], out: &mut [f32]) -> Result<(), ReadError> {
        let shape = [out.len() as u64];
        read_rows(
            &View { name: &self.name, dtype: self.dtype, shape: &shape, bytes: bytes.into() },
            0,
            1,
            out,
        )
    }
}

impl Stored for Strided {
    fn read(&self, parts: &[Part], region: Region, out: &mut [f32]) -> Result<(), ReadError> {
        let Region { rows, columns } = region;
        let bytes = self.storage.of(parts)?;
        let width = (columns.end - columns.start) as usize;
        let step = self.step();
        if self.is_transposed() {
            // out[row][column] = storage[offset + row + column step]: a run of rows for each column.
            let n_rows = (rows.end - rows.start) as usize;
            let mut run = vec![0.0; n_rows];
            for (at, column) in columns.enumerate() {
                self.read_run(&bytes, self.offset + rows.start + column * step, &mut run)?;
                for (row, value) in run.iter().enumerate() {
                    out[row * width + at] = *value;
                }
            }
            return Ok(());
        }
        let item = (self.dtype.bits() / 8) as usize;
        let mut gathered = Vec::new();
        for (row, out) in rows.zip(out.chunks_exact_mut(width)) {
            let first = self.begin(row) + columns.start * step;
            if step == 1 {
                self.read_run(&bytes, first, out)?;
                continue;
            }
            for (chunk, out) in out.chunks_mut(CHUNK).enumerate() {
                gathered.clear();
                let mut at = (first + (chunk * CHUNK) as u64 * step) as usize * item;
                for _ in 0..out.len() {
                    gathered.extend_from_slice(&bytes[at..at + item]);
                    at += step as usize * item;
                }
                self.convert(&gathered, out)?;
            }
        }
        Ok(())
    }

    fn spans(&self, rows: Range<u64>) -> Vec<Span> {
        if rows.is_empty() {
            return Vec::new();
        }
        let item = self.dtype.bits() / 8;
        // From the first row's begin to the last element of the last one; rows of more dimensions may be in
        // any order.
        let elems_of = |rows: Range<u64>| {
            let row_end = self.shape.last().map_or(0, |n| (n - 1) * self.step());
            self.begin(rows.start)..self.begin(rows.end - 1) + row_end + 1
        };
        let n_rows: u64 = self.shape.iter().rev().skip(1).product();
        let elems = if self.shape.len() <= 2 { elems_of(rows) } else { elems_of(0..n_rows) };
        vec![self.storage.part_of(elems.start * item..elems.end * item)]
    }

    fn after_parts(&self, n: usize) -> Option<Arc<dyn Stored>> {
        let mut moved = self.clone();
        moved.storage.part += n;
        Some(Arc::new(moved))
    }

    fn panel_rows(&self) -> u64 {
        if self.is_transposed() { PAGE_BYTES * 8 / self.dtype.bits() } else { 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strided(shape: &[u64], strides: &[u64]) -> Strided {
        Strided {
            name: "t".to_owned(),
            dtype: Dtype::U8,
            storage: Span { part: 0, bytes: 0..64 },
            offset: 1,
            shape: shape.to_vec(),
            strides: strides.to_vec(),
        }
    }

    #[test]
    fn row_offsets_follow_strides() {
        let cube = strided(&[2, 3, 4], &[1, 8, 2]);
        let begins: Vec<u64> = (0..6).map(|row| cube.begin(row)).collect();
        assert_eq!(begins, [1, 9, 17, 2, 10, 18]);
        assert_eq!(cube.spans(2..3), [Span { part: 0, bytes: 1..25 }]);
        let moved = cube.after_parts(3).unwrap();
        assert_eq!(moved.spans(2..3), [Span { part: 3, bytes: 1..25 }]);
        assert_eq!(strided(&[4, 3], &[5, 1]).spans(1..3), [Span { part: 0, bytes: 6..14 }]);
        assert_eq!(strided(&[4, 3], &[1, 5]).panel_rows(), 4096);
        assert_eq!(strided(&[4, 3], &[0, 1]).panel_rows(), 1);
    }
}

//! Scales, offsets and zeros that are floats: one for each group of columns of a row.

use std::ops::Range;

use crate::{Dtype, Part, ReadError, Span, Tensor, rows::to_f32};

/// Numbers of shape (rows, groups) for each of several matrices, at any strides.
///
/// `[out, groups]` has strides (groups, 1), `[groups, out]` (1, out), `[out, 1]` (1, 0), one number (0, 0).
#[derive(Debug, Clone)]
pub(crate) struct Strided {
    pub name: String,
    pub span: Span,
    pub dtype: Dtype,
    /// Elements from one matrix to the next.
    pub matrix_stride: u64,
    /// Elements from one row to the next.
    pub row_stride: u64,
    /// Elements from one group to the next.
    pub group_stride: u64,
    pub change: Change,
}

/// Operation applied to a number after reading.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Change {
    None,
    /// Takes the reciprocal.
    Inverse,
    /// Adds this value: the effect of a code's flipped sign bit on its zero.
    Add(f32),
}

impl Strided {
    /// Numbers `[.., out, groups]`.
    pub fn by_row(tensor: &Tensor, n_rows: u64, n_groups: u64) -> Strided {
        Strided {
            matrix_stride: n_rows * n_groups,
            row_stride: n_groups,
            group_stride: 1,
            ..Strided::one(tensor)
        }
    }

    /// Numbers `[groups, out]`.
    pub fn transposed(tensor: &Tensor, n_rows: u64) -> Strided {
        Strided { row_stride: 1, group_stride: n_rows, ..Strided::one(tensor) }
    }

    pub fn one(tensor: &Tensor) -> Strided {
        let Tensor { name, dtype, .. } = tensor;
        let (name, span) = (name.clone(), tensor.span());
        Strided {
            name,
            span,
            dtype: *dtype,
            matrix_stride: 0,
            row_stride: 0,
            group_stride: 0,
            change: Change::None,
        }
    }

    /// Bytes of a number.
    fn elem_bytes(&self) -> u64 {
        self.dtype.bits() / 8
    }

    /// Byte range of rows `rows` of a matrix with all their groups (at least one).
    pub fn place(&self, matrix: u64, rows: Range<u64>, n_groups: u64) -> Span {
        let last = |n: u64, stride: u64| n.saturating_sub(1) * stride;
        let first = matrix * self.matrix_stride + rows.start * self.row_stride;
        let end =
            first + last(rows.end - rows.start, self.row_stride) + last(n_groups, self.group_stride) + 1;
        self.span.part_of(first * self.elem_bytes()..end * self.elem_bytes())
    }

    /// Reads the numbers of groups `groups` of rows `rows` into `out`, which is (rows, groups).
    ///
    /// # Errors
    /// [`ReadError::NoValue`] for a number that is not finite, and errors of reading.
    pub fn read(
        &self,
        parts: &[Part],
        matrix: u64,
        rows: Range<u64>,
        groups: Range<u64>,
        out: &mut [f32],
    ) -> Result<(), ReadError> {
        let n_groups = (groups.end - groups.start) as usize;
        let place = self.place(matrix, rows.clone(), groups.end);
        let bytes = place.of(parts)?;
        let elem_bytes = self.elem_bytes();
        for (row, out) in (0..rows.end - rows.start).zip(out.chunks_exact_mut(n_groups)) {
            let at = |group: u64| ((row * self.row_stride + group * self.group_stride) * elem_bytes) as usize;
            if self.group_stride == 1 {
                to_f32(self.dtype, &bytes[at(groups.start)..at(groups.end)], out);
            } else {
                for (group, out) in groups.clone().zip(out.iter_mut()) {
                    let begin = at(group);
                    to_f32(self.dtype, &bytes[begin..begin + elem_bytes as usize], std::slice::from_mut(out));
                }
            }
            match self.change {
                Change::None => {}
                Change::Inverse => out.iter_mut().for_each(|value| *value = 1.0 / *value),
                Change::Add(more) => out.iter_mut().for_each(|value| *value += more),
            }
            if let Some(bad) = out.iter().find(|value| !value.is_finite()) {
                return Err(ReadError::no_value(&self.name, rows.start + row, "a finite number", bad));
            }
        }
        Ok(())
    }
}

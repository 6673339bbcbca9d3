//! Pairs, and products of two matrices (LyCORIS), computed on reading.
//!
//! ```text
//! W' = W + s (X * Y)       LoHa: elements of X and Y (n_rows, n_columns)
//! W' = W + s (X kron Y)    LoKr: X (a, c), Y (b, d); row i b + j, column p d + q is X[i, p] Y[j, q]
//! ```
//!
//! X and Y are matrices of the file or pairs `L @ R`. Each product is rounded before the scale is applied, and each
//! operation once. Source: `get_delta_weight` in `tuners/loha/layer.py` and `tuners/lokr/layer.py` and `make_weight_cp` of
//! peft 0.21.2; `functional/loha.py` and `functional/lokr.py` of lycoris-lora 4.1.3.

use std::ops::Range;

use gguf_checkpoint::{Part, ReadError};

use super::super::low_rank::Change;

/// Change of rows of a matrix.
#[derive(Debug)]
pub(super) enum Product {
    Pair(Change),
    /// `s (X * Y)`, element by element.
    Hadamard {
        factors: [Change; 2],
        scale: f32,
    },
    Kronecker(Kronecker),
}

impl Product {
    /// Adds columns `columns` of rows `rows` to `out`, which is (rows, columns) f32.
    pub(super) fn add(
        &self,
        parts: &[Part],
        rows: Range<u64>,
        columns: Range<u64>,
        out: &mut [f32],
    ) -> Result<(), ReadError> {
        match self {
            _ if out.is_empty() => {}
            Product::Pair(change) => change.add(parts, rows, columns, out)?,
            Product::Hadamard { factors: [left, right], scale } => {
                let [mut x, mut y] = [vec![0.0; out.len()], vec![0.0; out.len()]];
                left.add(parts, rows.clone(), columns.clone(), &mut x)?;
                right.add(parts, rows, columns, &mut y)?;
                for ((out, x), y) in out.iter_mut().zip(x).zip(y) {
                    *out += x * y * scale;
                }
            }
            Product::Kronecker(product) => product.add(parts, rows, columns, out)?,
        }
        Ok(())
    }
}

/// `s (X kron Y)`.
#[derive(Debug)]
pub(super) struct Kronecker {
    pub left: Change,
    pub right: Change,
    /// Rows and columns of `right`.
    pub right_shape: [u64; 2],
    /// Row of the product for row 0 of the base tensor.
    pub offset: u64,
    pub scale: f32,
}

impl Kronecker {
    /// Adds columns `columns` of rows `rows` to `out`, which is (rows, columns) and not empty.
    pub(super) fn add(
        &self,
        parts: &[Part],
        rows: Range<u64>,
        columns: Range<u64>,
        mut out: &mut [f32],
    ) -> Result<(), ReadError> {
        let [n_inner_rows, n_inner_columns] = self.right_shape;
        let n_columns = (columns.end - columns.start) as usize;
        let outer = columns.start / n_inner_columns..columns.end.div_ceil(n_inner_columns);
        // Columns of Y: the requested ones, or all if several columns of X need them.
        let inner = match outer.end - outer.start {
            1 => {
                let begin = outer.start * n_inner_columns;
                columns.start - begin..columns.end - begin
            }
            _ => 0..n_inner_columns,
        };
        let width = (inner.end - inner.start) as usize;
        let (mut row, end) = (self.offset + rows.start, self.offset + rows.end);
        // Rows with the same row of X at a time.
        while row < end {
            let (outer_row, first) = (row / n_inner_rows, row % n_inner_rows);
            let n_rows = (end - row).min(n_inner_rows - first);
            let (now, later) = out.split_at_mut(n_rows as usize * n_columns);
            let mut left = vec![0.0; (outer.end - outer.start) as usize];
            self.left.add(parts, outer_row..outer_row + 1, outer.clone(), &mut left)?;
            let mut right = vec![0.0; n_rows as usize * width];
            self.right.add(parts, first..first + n_rows, inner.clone(), &mut right)?;
            for (out, right) in now.chunks_exact_mut(n_columns).zip(right.chunks_exact(width)) {
                for (block, left) in outer.clone().zip(&left) {
                    let start = block * n_inner_columns;
                    let (begin, stop) = (columns.start.max(start), columns.end.min(start + n_inner_columns));
                    let out = &mut out[(begin - columns.start) as usize..(stop - columns.start) as usize];
                    let right = &right[(begin - start - inner.start) as usize..];
                    for (out, right) in out.iter_mut().zip(right) {
                        *out += left * right * self.scale;
                    }
                }
            }
            (row, out) = (row + n_rows, later);
        }
        Ok(())
    }
}

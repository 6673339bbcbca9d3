//! A tensor whose outputs are rotated in blocks (OFT), computed on reading.
//!
//! The tensor is treated as a matrix (n_rows, n_columns). A block B (N, N) of the file changes N rows W:
//!
//! ```text
//! Q  = c (B - B^T)                       c limits the norm of Q of all blocks to `alpha` n_rows
//! R  = (I + Q) (I - Q)^-1
//! W' = m (W + s (R - I)^T W)             m: a factor per row (`rescale`), or 1
//! ```
//!
//! R - I is computed in f64 and rounded; all other operations are in f32. Source: `get_r` and `_diff_weight` in
//! `functional/diag_oft.py` and `DiagOFTModule.make_weight` in `modules/diag_oft.py` of lycoris-lora 4.1.3.

use std::ops::Range;

use gguf_checkpoint::{
    Dtype, Part, ReadError, Region, Span, Stored, Tensor, read_columns, read_elements, read_runs,
};

use super::{
    super::{MergeError, error::shape_error},
    parts::Module,
    patched::{as_row, matrix_columns, reshaped},
};

/// Largest block: its inverse is computed again for each range of rows.
const MAX_SIZE: u64 = 1024;

/// Rotation of a module.
#[derive(Debug, Clone)]
pub(super) struct Rotation {
    /// (blocks * N, N).
    blocks: Tensor,
    /// N.
    pub size: u64,
    /// The factors m, as one row.
    rescale: Option<Tensor>,
    /// c.
    limit: f32,
    scale: f32,
}

impl Rotation {
    /// The rotation of a module with `n_outputs` rows. `constraint` (`alpha` of the file) limits the norm of Q unless it is 0.
    ///
    /// # Errors
    /// [`MergeError::Shape`], [`MergeError::Kind`] for blocks that are too large or of BOFT, [`MergeError::Read`].
    pub(super) fn of(
        module: &Module<'_>,
        blocks: &Tensor,
        n_outputs: u64,
        constraint: f32,
        scale: f32,
        target: &Tensor,
        parts: &[Part],
    ) -> Result<Rotation, MergeError> {
        if blocks.shape.len() == 4 {
            let kind = "BOFT (butterfly factors)";
            return Err(MergeError::Kind { tensor: blocks.name.clone(), kind });
        }
        let size = match blocks.shape[..] {
            [n_blocks, size, columns] if size == columns && n_blocks.checked_mul(size) == Some(n_outputs) => {
                size
            }
            _ => return Err(shape_error(blocks, &format!("square blocks of {n_outputs} rows"), target)),
        };
        if size > MAX_SIZE {
            let kind = "OFT with blocks of more than 1024 rows";
            return Err(MergeError::Kind { tensor: blocks.name.clone(), kind });
        }
        if let Some(rescale) = module.rescale
            && (rescale.shape.first() != Some(&n_outputs) || matrix_columns(rescale) != 1)
        {
            return Err(shape_error(rescale, &format!("{n_outputs} factors"), target));
        }
        let mut rotation = Rotation {
            blocks: reshaped(blocks, vec![n_outputs, size]),
            size,
            rescale: module.rescale.map(as_row),
            limit: 1.0,
            scale,
        };
        if constraint > 0.0 {
            let most = f64::from(constraint) * n_outputs as f64;
            let mut sum = 0.0;
            for block in 0..n_outputs / size {
                let skew = rotation.skew(parts, block).map_err(MergeError::Read)?;
                sum += skew.iter().map(|value| value * value).sum::<f64>();
            }
            let norm = sum.sqrt() + 1e-8;
            if norm > most {
                rotation.limit = (most / norm) as f32;
            }
        }
        Ok(rotation)
    }

    /// Q of a block.
    fn skew(&self, parts: &[Part], block: u64) -> Result<Vec<f64>, ReadError> {
        let n = self.size as usize;
        let mut values = vec![0.0f32; n * n];
        let rows = block * self.size..(block + 1) * self.size;
        read_columns(parts, &self.blocks, rows, 0..self.size, &mut values)?;
        let at = |row: usize, column: usize| values[row * n + column];
        let element = |index: usize| (at(index / n, index % n) - at(index % n, index / n)) * self.limit;
        Ok((0..n * n).map(|index| f64::from(element(index))).collect())
    }

    /// R - I of a block: the solution of `(I - Q) R = I + Q`, whose factors commute. Row operations with pivots.
    fn turn(&self, parts: &[Part], block: u64) -> Result<Vec<f32>, ReadError> {
        let n = self.size as usize;
        let mut right = self.skew(parts, block)?;
        let mut left: Vec<f64> = right.iter().map(|value| -value).collect();
        for at in 0..n {
            left[at * n + at] += 1.0;
            right[at * n + at] += 1.0;
        }
        for column in 0..n {
            let larger =
                |a: &usize, b: &usize| left[a * n + column].abs().total_cmp(&left[b * n + column].abs());
            let pivot = (column..n).max_by(larger).unwrap_or(column);
            for matrix in [&mut left, &mut right] {
                for at in 0..n {
                    matrix.swap(pivot * n + at, column * n + at);
                }
            }
            for row in (0..n).filter(|row| *row != column) {
                let factor = left[row * n + column] / left[column * n + column];
                if factor == 0.0 {
                    continue;
                }
                for matrix in [&mut left, &mut right] {
                    for at in 0..n {
                        matrix[row * n + at] -= factor * matrix[column * n + at];
                    }
                }
            }
        }
        let element = |index: usize| {
            let (row, column) = (index / n, index % n);
            right[index] / left[row * n + row] - f64::from(u8::from(row == column))
        };
        Ok((0..n * n).map(|index| element(index) as f32).collect())
    }
}

/// A base tensor with rotated rows.
#[derive(Debug)]
pub(super) struct Rotated {
    pub base: Tensor,
    /// Rows of the matrix, their first row in the module, and the rotation. Each begins and ends with a block.
    pub rotations: Vec<(Range<u64>, u64, Rotation)>,
}

impl Stored for Rotated {
    fn read(&self, parts: &[Part], region: Region, out: &mut [f32]) -> Result<(), ReadError> {
        let Region { rows, columns } = region;
        read_columns(parts, &self.base, rows.clone(), columns.clone(), out)?;
        read_runs(self.base.row_elems(), rows, columns, out, |first, out| self.rotate(parts, first, out))
    }

    fn spans(&self, rows: Range<u64>) -> Vec<Span> {
        self.base.spans(rows)
    }

    fn codes(&self) -> Option<Dtype> {
        self.base.stored.as_ref()?.codes()
    }

    /// Rows of a block are read together.
    fn panel_rows(&self) -> u64 {
        let size = self.rotations.iter().map(|(.., rotation)| rotation.size).max().unwrap_or(1);
        let own_rows = matrix_columns(&self.base) / self.base.row_elems().max(1);
        self.base.panel_rows().max(size * own_rows)
    }

    fn description(&self) -> Option<String> {
        Some(format!("{}+oft", self.base.stored_as()))
    }
}

impl Rotated {
    /// Rotates `out`, which begins at element `first` of the base.
    fn rotate(&self, parts: &[Part], first: u64, out: &mut [f32]) -> Result<(), ReadError> {
        let n_columns = matrix_columns(&self.base);
        let end = first + out.len() as u64;
        for (rows, first_row, rotation) in &self.rotations {
            for start in rows.clone().step_by(rotation.size as usize) {
                let block = start..start + rotation.size;
                if block.end * n_columns <= first || end <= block.start * n_columns {
                    continue;
                }
                let at = (first_row + start - rows.start) / rotation.size;
                let turn = rotation.turn(parts, at)?;
                let mut factors = vec![1.0; rotation.size as usize];
                if let Some(rescale) = &rotation.rescale {
                    let columns = at * rotation.size..(at + 1) * rotation.size;
                    read_columns(parts, rescale, 0..1, columns, &mut factors)?;
                }
                // Columns of the block that are requested: all, or those of a part of one row.
                let from = first.max(block.start * n_columns);
                let to = end.min(block.end * n_columns);
                let is_part = from / n_columns == (to - 1) / n_columns;
                let columns = if is_part { from % n_columns..(to - 1) % n_columns + 1 } else { 0..n_columns };
                let width = (columns.end - columns.start) as usize;
                let mut base = vec![0.0; rotation.size as usize * width];
                for (row, base) in block.clone().zip(base.chunks_exact_mut(width)) {
                    let elems = row * n_columns + columns.start..row * n_columns + columns.end;
                    read_elements(parts, &self.base, elems, base)?;
                }
                for row in from / n_columns..=(to - 1) / n_columns {
                    let (begin, stop) = (from.max(row * n_columns), to.min((row + 1) * n_columns));
                    let place = (row - block.start) as usize;
                    let out = &mut out[(begin - first) as usize..(stop - first) as usize];
                    let skipped = (begin - row * n_columns - columns.start) as usize;
                    rotation.add(&turn, factors[place], place, &base[skipped..], width, out);
                }
            }
        }
        Ok(())
    }
}

impl Rotation {
    /// Rotates row `place` of a block, whose rows in `base` are `width` apart.
    fn add(&self, turn: &[f32], factor: f32, place: usize, base: &[f32], width: usize, out: &mut [f32]) {
        let n = self.size as usize;
        let mut sums = vec![0.0f32; out.len()];
        for (other, base) in base.chunks(width).take(n).enumerate() {
            let turn = turn[other * n + place];
            for (sum, value) in sums.iter_mut().zip(base) {
                *sum = turn.mul_add(*value, *sum);
            }
        }
        for (out, sum) in out.iter_mut().zip(sums) {
            *out = factor * (*out + self.scale * sum);
        }
    }
}

//! A right side that is packed once for many products.

use std::{cell::Cell, ops::Range};

use gguf_quant::{Level, Vectors};
use ndarray::{ArrayView2, s};

use crate::{
    BLOCK,
    panels::{self, LINE, Line, lines_of_row, n_lines},
};

/// A matrix (k, n) in the layout for the kernels of one level. Packing again reuses its memory.
#[derive(Debug, Clone)]
pub struct Right {
    level: Level,
    n_k: usize,
    n: usize,
    row_lines: usize,
    /// For each block of rows its panels; a block has [`BLOCK`] rows, the last one the rest.
    lines: Vec<Line>,
}

impl Default for Right {
    fn default() -> Right {
        Right { level: Level::Scalar, n_k: 0, n: 0, row_lines: 1, lines: Vec::new() }
    }
}

thread_local! {
    /// Rows of a transpose before they are packed.
    static ROWS: Cell<Vec<f32>> = const { Cell::new(Vec::new()) };
}

impl Right {
    /// Packs `b` (k, n).
    pub fn pack(&mut self, level: Level, b: ArrayView2<'_, f32>) {
        let (n_k, n) = b.dim();
        self.set_shape(level, n_k, n);
        self.pack_columns(b, 0..n);
    }

    /// Packs the transpose of a matrix (n, k) whose rows `fill` writes, row-major, a few at a time and in
    /// order, so that decoded weights exist only here.
    ///
    /// # Errors
    /// Those of `fill`.
    pub fn pack_rows<E>(
        &mut self,
        level: Level,
        n: usize,
        n_k: usize,
        mut fill: impl FnMut(Range<usize>, &mut [f32]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.set_shape(level, n_k, n);
        let width = self.row_lines * LINE;
        let mut rows = ROWS.take();
        rows.resize(rows.len().max(width * n_k), 0.0);
        for first in (0..n).step_by(width) {
            let columns = first..(first + width).min(n);
            let rows = &mut rows[..columns.len() * n_k];
            fill(columns.clone(), rows)?;
            let b = ArrayView2::from_shape((columns.len(), n_k), rows);
            self.pack_columns(b.expect("as many values as the shape says").reversed_axes(), columns);
        }
        ROWS.set(rows);
        Ok(())
    }

    /// Shape (k, n).
    pub fn dim(&self) -> (usize, usize) {
        (self.n_k, self.n)
    }

    /// Level that it was packed for.
    pub fn level(&self) -> Level {
        self.level
    }

    /// Element (k, j).
    pub(crate) fn element(&self, k: usize, j: usize) -> f32 {
        let (block, width) = (k / BLOCK * BLOCK, self.row_lines * LINE);
        let lines = self.block(block..(block + BLOCK).min(self.n_k));
        let n_rows = lines.len() / (self.n.div_ceil(width) * self.row_lines);
        let at = (j / width * n_rows + k - block) * self.row_lines + j % width / LINE;
        lines[at].0[j % LINE]
    }

    /// The panels of a block of rows.
    pub(crate) fn block(&self, rows: Range<usize>) -> &[Line] {
        &self.lines[n_lines(rows.start, self.n, self.row_lines)..n_lines(rows.end, self.n, self.row_lines)]
    }

    fn set_shape(&mut self, level: Level, n_k: usize, n: usize) {
        (self.level, self.n_k, self.n, self.row_lines) = (level, n_k, n, row_lines_of(level));
        let n_lines = n_lines(n_k, n, self.row_lines);
        self.lines.resize(self.lines.len().max(n_lines), Line::ZEROS);
    }

    /// Packs columns of the matrix, starting at a panel: b (k, columns.len()).
    fn pack_columns(&mut self, b: ArrayView2<'_, f32>, columns: Range<usize>) {
        for first in (0..self.n_k).step_by(BLOCK) {
            let block = first..(first + BLOCK).min(self.n_k);
            let start =
                n_lines(first, self.n, self.row_lines) + n_lines(block.len(), columns.start, self.row_lines);
            let end = start + n_lines(block.len(), columns.len(), self.row_lines);
            let (b, lines) = (b.slice(s![block, ..]), &mut self.lines[start..end]);
            self.level.run(Pack { b, row_lines: self.row_lines, lines });
        }
    }
}

/// Lines per row of a panel at a level.
pub(crate) fn row_lines_of(level: Level) -> usize {
    struct RowLines;
    impl Vectors for RowLines {
        type Output = usize;
        #[inline(always)]
        fn run<S: fearless_simd::Simd>(self, _: S) -> usize {
            lines_of_row(<S::f32s as fearless_simd::SimdBase<S>>::LEN)
        }
        fn scalar(self) -> usize {
            1
        }
    }
    level.run(RowLines)
}

struct Pack<'a> {
    b: ArrayView2<'a, f32>,
    row_lines: usize,
    lines: &'a mut [Line],
}

impl Vectors for Pack<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: fearless_simd::Simd>(self, simd: S) {
        panels::pack(simd, self.b, self.row_lines, self.lines);
    }

    fn scalar(self) {
        panels::pack_plain(self.b, self.row_lines, self.lines);
    }
}

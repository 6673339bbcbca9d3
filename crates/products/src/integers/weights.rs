//! The right side: integers packed in pairs of rows, with scales.

use std::{cell::Cell, ops::Range};

use quant::Level;

use super::{BlockForm, Panel};
use crate::{
    panels::{LINE, Line},
    right::row_lines_of,
};

/// A cache line of integers: pairs for 16 columns.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
pub(crate) struct IntLine(pub [i16; 2 * LINE]);

/// A matrix (k, n) of integers in blocks with float scales, as the kernels of one level read it. Its memory is used again when
/// it is packed anew.
#[derive(Debug, Clone)]
pub struct Weights {
    level: Level,
    form: BlockForm,
    n_blocks: usize,
    n: usize,
    row_lines: usize,
    /// For each panel its blocks: lines of pairs, then of pairs of minima.
    lines: Vec<IntLine>,
    /// For each panel its blocks: lines of scales, then of scales of minima.
    scales: Vec<Line>,
}

/// Rows of the transpose taken apart, to be written: all row-major.
pub struct Taken<'a> {
    /// (rows, k): integers of at most 13 bits.
    pub levels: &'a mut [f32],
    /// (rows, n_blocks).
    pub scales: &'a mut [f32],
    /// (rows, k): the minimum of each element, the same for a whole group; empty without minima.
    pub minima: &'a mut [f32],
    /// (rows, n_blocks); empty without minima.
    pub min_scales: &'a mut [f32],
}

impl Default for Weights {
    fn default() -> Weights {
        let form = BlockForm { elems: 2, n_minima: 0 };
        let (lines, scales) = (Vec::new(), Vec::new());
        Weights { level: Level::Scalar, form, n_blocks: 0, n: 0, row_lines: 1, lines, scales }
    }
}

thread_local! {
    /// Rows that are taken apart.
    static ROWS: Cell<Vec<f32>> = const { Cell::new(Vec::new()) };
}

impl Weights {
    /// Packs the transpose of a matrix (n, k) whose rows `fill` takes apart, a few at a time and ascending.
    ///
    /// # Errors
    /// That of `fill`.
    ///
    /// # Panics
    /// If rows are not whole blocks.
    pub fn pack_rows<E>(
        &mut self,
        level: Level,
        form: BlockForm,
        n: usize,
        n_k: usize,
        mut fill: impl FnMut(Range<usize>, Taken<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        assert!(form.elems.is_multiple_of(2) && n_k.is_multiple_of(form.elems), "rows are whole blocks");
        let n_blocks = n_k / form.elems;
        (self.level, self.form, self.n_blocks, self.n) = (level, form, n_blocks, n);
        self.row_lines = row_lines_of(level);
        let width = self.row_lines * LINE;
        let n_panels = n.div_ceil(width);
        let (n_lines, n_scales) =
            (n_panels * self.panel_lines(n_blocks), n_panels * self.panel_scales(n_blocks));
        self.lines.resize(self.lines.len().max(n_lines), IntLine([0; 2 * LINE]));
        self.scales.resize(self.scales.len().max(n_scales), Line::ZEROS);
        let has_minima = form.n_minima > 0;
        let mut rows = ROWS.take();
        rows.resize(rows.len().max(2 * width * (n_k + n_blocks)), 0.0);
        for (panel, first) in (0..n).step_by(width).enumerate() {
            let columns = first..(first + width).min(n);
            let (elems, blocks) = (columns.len() * n_k, columns.len() * n_blocks);
            let (levels, rest) = rows.split_at_mut(elems);
            let (scales, rest) = rest.split_at_mut(blocks);
            let (minima, rest) = rest.split_at_mut(if has_minima { elems } else { 0 });
            let min_scales = &mut rest[..if has_minima { blocks } else { 0 }];
            fill(columns.clone(), Taken { levels, scales, minima, min_scales })?;
            self.pack_panel(panel, columns.len(), levels, scales, minima, min_scales);
        }
        ROWS.set(rows);
        Ok(())
    }

    fn pack_panel(
        &mut self,
        panel: usize,
        n_columns: usize,
        levels: &[f32],
        scales: &[f32],
        minima: &[f32],
        min_scales: &[f32],
    ) {
        let (form, n_blocks, row_lines) = (self.form, self.n_blocks, self.row_lines);
        let (block_lines, block_scales) = (self.panel_lines(1), self.panel_scales(1));
        let n_k = n_blocks * form.elems;
        let lines = &mut self.lines[panel * n_blocks * block_lines..(panel + 1) * n_blocks * block_lines];
        let line_scales =
            &mut self.scales[panel * n_blocks * block_scales..(panel + 1) * n_blocks * block_scales];
        // Columns beyond the last are zeros.
        if n_columns < row_lines * LINE {
            lines.fill(IntLine([0; 2 * LINE]));
            line_scales.fill(Line::ZEROS);
        }
        let blocks = lines.chunks_exact_mut(block_lines).zip(line_scales.chunks_exact_mut(block_scales));
        for (p, (lines, line_scales)) in blocks.enumerate() {
            for j in 0..n_columns {
                let (line, at) = (j / LINE, j % LINE);
                let of_block = j * n_k + p * form.elems..j * n_k + (p + 1) * form.elems;
                // Pair `i` of column `j`: two neighbours in line `line` of row `i`.
                let put = |lines: &mut [IntLine], i: usize, pair: [f32; 2]| {
                    lines[i * row_lines + line].0[2 * at..2 * at + 2]
                        .copy_from_slice(&pair.map(|x| x as i16));
                };
                for (i, pair) in levels[of_block.clone()].as_chunks::<2>().0.iter().enumerate() {
                    put(lines, i, *pair);
                }
                line_scales[line].0[at] = scales[j * n_blocks + p];
                if form.n_minima == 0 {
                    continue;
                }
                let group = form.elems / form.n_minima;
                let minima = &minima[of_block];
                for i in 0..form.n_minima.div_ceil(2) {
                    let minimum = |g: usize| if g < form.n_minima { minima[g * group] } else { 0.0 };
                    put(lines, form.elems / 2 + i, [minimum(2 * i), minimum(2 * i + 1)]);
                }
                line_scales[row_lines + line].0[at] = min_scales[j * n_blocks + p];
            }
        }
    }

    /// How rows of the transpose are cut.
    pub fn form(&self) -> BlockForm {
        self.form
    }

    /// Rows: elements of a sum.
    pub fn n_k(&self) -> usize {
        self.n_blocks * self.form.elems
    }

    /// Columns.
    pub fn n(&self) -> usize {
        self.n
    }

    /// The level that it was packed for.
    pub fn level(&self) -> Level {
        self.level
    }

    /// Lines of so many blocks of a panel.
    fn panel_lines(&self, n_blocks: usize) -> usize {
        n_blocks * (self.form.elems / 2 + self.form.n_minima.div_ceil(2)) * self.row_lines
    }

    /// Lines of scales of so many blocks of a panel.
    fn panel_scales(&self, n_blocks: usize) -> usize {
        n_blocks * self.row_lines * if self.form.n_minima > 0 { 2 } else { 1 }
    }

    /// Some blocks of a panel.
    #[inline(always)]
    pub(super) fn panel(&self, panel: usize, blocks: Range<usize>) -> Panel<'_> {
        let first = panel * self.n_blocks;
        let (start, end) = (first + blocks.start, first + blocks.end);
        Panel {
            lines: &self.lines[self.panel_lines(start)..self.panel_lines(end)],
            scales: &self.scales[self.panel_scales(start)..self.panel_scales(end)],
        }
    }

    /// Element (pair-wise position `i`) of block `p`, column `j`.
    fn at(&self, p: usize, i: usize, j: usize) -> i32 {
        let width = self.row_lines * LINE;
        let panel = self.panel(j / width, p..p + 1);
        panel.lines[i / 2 * self.row_lines + j % width / LINE].0[2 * (j % LINE) + i % 2].into()
    }

    fn scale_at(&self, p: usize, row: usize, j: usize) -> f32 {
        let width = self.row_lines * LINE;
        self.panel(j / width, p..p + 1).scales[row * self.row_lines + j % width / LINE].0[j % LINE]
    }

    pub(super) fn level_of(&self, p: usize, k: usize, j: usize) -> i32 {
        self.at(p, k, j)
    }

    pub(super) fn minimum(&self, p: usize, g: usize, j: usize) -> i32 {
        self.at(p, self.form.elems + g, j)
    }

    pub(super) fn scale(&self, p: usize, j: usize) -> f32 {
        self.scale_at(p, 0, j)
    }

    pub(super) fn min_scale(&self, p: usize, j: usize) -> f32 {
        self.scale_at(p, 1, j)
    }
}

//! The right side: integers packed in words of two or four rows, with scales.

use std::{cell::RefCell, ops::Range};

use gguf_quant::{IntegerBlocks, Level};

use super::{
    BlockForm, Panel,
    quants::{half, pair},
    words::Words,
};
use crate::{
    panels::{LINE, Line},
    right::row_lines_of,
};

/// A cache line of integers: words for 16 columns.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
pub(crate) struct IntLine(pub [i32; LINE]);

impl IntLine {
    const ZEROS: IntLine = IntLine([0; LINE]);
}

/// A matrix (k, n) of integers in blocks with float scales, in the layout for the kernels of one level.
/// Packing again reuses its memory.
#[derive(Debug, Clone)]
pub struct Weights {
    level: Level,
    form: BlockForm,
    words: Words,
    n_blocks: usize,
    n: usize,
    row_lines: usize,
    /// For each panel and block: lines of words, of integer scales if words are bytes, then of pairs of
    /// minima.
    lines: Vec<IntLine>,
    /// For each panel and block: lines of scales, then of scales of minima.
    scales: Vec<Line>,
}

#[derive(Debug, Default)]
struct Room {
    levels: Vec<u8>,
    int_scales: Vec<i16>,
    minima: Vec<i16>,
    scales: Vec<f32>,
    min_scales: Vec<f32>,
}

impl Default for Weights {
    fn default() -> Weights {
        let form = BlockForm { elems: 4, n_minima: 0, n_scales: 0, offset: 0, max_level: 255 };
        let (lines, scales, words) = (Vec::new(), Vec::new(), Words::Pairs);
        Weights { level: Level::Scalar, form, words, n_blocks: 0, n: 0, row_lines: 1, lines, scales }
    }
}

thread_local! {
    static ROOM: RefCell<Room> = RefCell::default();
}

/// First elements of a buffer, which grows if it is too small.
fn room<T: Copy + Default>(buffer: &mut Vec<T>, n: usize) -> &mut [T] {
    buffer.resize(buffer.len().max(n), T::default());
    &mut buffer[..n]
}

impl Weights {
    /// Packs the transpose of a matrix (n, k) whose rows `fill` unpacks, a few at a time and in order.
    ///
    /// # Errors
    /// Those of `fill`.
    ///
    /// # Panics
    /// If rows do not fill blocks.
    pub fn pack_rows<E>(
        &mut self,
        level: Level,
        form: BlockForm,
        n: usize,
        n_k: usize,
        mut fill: impl FnMut(Range<usize>, IntegerBlocks<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        assert!(n_k.is_multiple_of(form.elems), "rows are whole blocks");
        let n_blocks = n_k / form.elems;
        (self.level, self.form, self.n_blocks, self.n) = (level, form, n_blocks, n);
        (self.words, self.row_lines) = (Words::of(level, form), row_lines_of(level));
        let width = self.row_lines * LINE;
        let n_panels = n.div_ceil(width);
        let (n_lines, n_scales) =
            (n_panels * self.panel_lines(n_blocks), n_panels * self.panel_scales(n_blocks));
        self.lines.resize(self.lines.len().max(n_lines), IntLine::ZEROS);
        self.scales.resize(self.scales.len().max(n_scales), Line::ZEROS);
        ROOM.with_borrow_mut(|own| {
            for (panel, first) in (0..n).step_by(width).enumerate() {
                let columns = first..(first + width).min(n);
                let blocks = columns.len() * n_blocks;
                let mut taken = IntegerBlocks {
                    levels: room(&mut own.levels, columns.len() * n_k),
                    scales: room(&mut own.scales, blocks),
                    int_scales: room(&mut own.int_scales, blocks * form.n_scales),
                    minima: room(&mut own.minima, blocks * form.n_minima),
                    min_scales: room(&mut own.min_scales, if form.n_minima > 0 { blocks } else { 0 }),
                };
                fill(columns.clone(), taken.lent())?;
                self.pack_panel(panel, columns.len(), &taken);
            }
            Ok(())
        })
    }

    fn pack_panel(&mut self, panel: usize, n_columns: usize, taken: &IntegerBlocks<'_>) {
        let Weights { form, words, n_blocks, row_lines, .. } = *self;
        let (block_lines, block_scales) = (self.panel_lines(1), self.panel_scales(1));
        let n_k = n_blocks * form.elems;
        let lines = &mut self.lines[panel * n_blocks * block_lines..(panel + 1) * n_blocks * block_lines];
        let line_scales =
            &mut self.scales[panel * n_blocks * block_scales..(panel + 1) * n_blocks * block_scales];
        // Columns beyond the last are zeros.
        if n_columns < row_lines * LINE {
            lines.fill(IntLine::ZEROS);
            line_scales.fill(Line::ZEROS);
        }
        let blocks = lines.chunks_exact_mut(block_lines).zip(line_scales.chunks_exact_mut(block_scales));
        for (p, (lines, line_scales)) in blocks.enumerate() {
            for j in 0..n_columns {
                let (line, at, block) = (j / LINE, j % LINE, j * n_blocks + p);
                let levels = &taken.levels[j * n_k + p * form.elems..][..form.elems];
                let int_scales = &taken.int_scales[block * form.n_scales..][..form.n_scales];
                // Word `i` of column `j` is in line `line` of row `i`.
                let mut rows = lines.chunks_exact_mut(row_lines);
                let mut put = |word: i32| {
                    if let Some(row) = rows.next() {
                        row[line].0[at] = word;
                    }
                };
                if words != Words::Pairs {
                    levels.as_chunks().0.iter().for_each(|quad| put(i32::from_le_bytes(*quad)));
                    int_scales.iter().for_each(|scale| {
                        put(match words {
                            Words::ShortSums { .. } => pair(*scale, *scale),
                            _ => (*scale).into(),
                        });
                    });
                } else {
                    let sub = form.elems / form.n_subs();
                    for (i, levels) in levels.chunks_exact(sub).enumerate() {
                        let scale = int_scales.get(i).copied().unwrap_or(1);
                        let integer = |level: u8| (i16::from(level) - i16::from(form.offset)) * scale;
                        levels
                            .as_chunks::<2>()
                            .0
                            .iter()
                            .for_each(|[a, b]| put(pair(integer(*a), integer(*b))));
                    }
                }
                line_scales[line].0[at] = taken.scales[block];
                if form.n_minima > 0 {
                    let minima = &taken.minima[block * form.n_minima..][..form.n_minima];
                    minima.chunks(2).for_each(|two| put(pair(two[0], two.get(1).copied().unwrap_or(0))));
                    line_scales[row_lines + line].0[at] = taken.min_scales[block];
                }
            }
        }
    }

    /// Block layout of the transpose's rows.
    pub fn form(&self) -> BlockForm {
        self.form
    }

    /// Number of rows, the elements of a sum.
    pub fn n_k(&self) -> usize {
        self.n_blocks * self.form.elems
    }

    /// Number of columns.
    pub fn n(&self) -> usize {
        self.n
    }

    #[cfg(target_arch = "x86_64")]
    pub(super) fn words(&self) -> Words {
        self.words
    }

    /// Level that it was packed for.
    pub fn level(&self) -> Level {
        self.level
    }

    /// Rows of words per block, without integer scales and minima.
    fn word_rows(&self) -> usize {
        self.form.elems / if self.words == Words::Pairs { 2 } else { 4 }
    }

    /// Rows of integer scales per block; for pairs they are multiplied into the integers.
    fn scale_rows(&self) -> usize {
        if self.words == Words::Pairs { 0 } else { self.form.n_scales }
    }

    /// Lines of this number of blocks of a panel.
    fn panel_lines(&self, n_blocks: usize) -> usize {
        let rows = self.word_rows() + self.scale_rows() + self.form.n_minima.div_ceil(2);
        n_blocks * rows * self.row_lines
    }

    /// Lines of scales of this number of blocks of a panel.
    fn panel_scales(&self, n_blocks: usize) -> usize {
        n_blocks * self.row_lines * if self.form.n_minima > 0 { 2 } else { 1 }
    }

    #[inline(always)]
    pub(super) fn panel(&self, panel: usize, blocks: Range<usize>) -> Panel<'_> {
        let first = panel * self.n_blocks;
        let (start, end) = (first + blocks.start, first + blocks.end);
        Panel {
            lines: &self.lines[self.panel_lines(start)..self.panel_lines(end)],
            scales: &self.scales[self.panel_scales(start)..self.panel_scales(end)],
        }
    }

    /// Word `row` of block `p`, column `j`, if words are pairs.
    fn word(&self, p: usize, row: usize, j: usize) -> i32 {
        let width = self.row_lines * LINE;
        self.panel(j / width, p..p + 1).lines[row * self.row_lines + j % width / LINE].0[j % LINE]
    }

    fn scale_at(&self, p: usize, row: usize, j: usize) -> f32 {
        let width = self.row_lines * LINE;
        self.panel(j / width, p..p + 1).scales[row * self.row_lines + j % width / LINE].0[j % LINE]
    }

    pub(super) fn level_of(&self, p: usize, k: usize, j: usize) -> i32 {
        half(self.word(p, k / 2, j), k)
    }

    pub(super) fn minimum(&self, p: usize, g: usize, j: usize) -> i32 {
        half(self.word(p, self.form.elems / 2 + g / 2, j), g)
    }

    pub(super) fn scale(&self, p: usize, j: usize) -> f32 {
        self.scale_at(p, 0, j)
    }

    pub(super) fn min_scale(&self, p: usize, j: usize) -> f32 {
        self.scale_at(p, 1, j)
    }
}

//! Blocks that fit the caches, around the kernel.

use std::{cell::Cell, ops::Range};

use fearless_simd::{Simd, SimdBase};
use ndarray::{ArrayView2, s};

use crate::{
    BLOCK, Matrix, Product, Update,
    left::{self, STRIDE},
    panels::{self, LINE, Line, lines_of_row, n_lines},
    tile::tile,
};

/// Number of rows of the left side that are multiplied with all panels of a block before the next rows: with
/// 256 columns 120 KB, in the second-level cache.
const LEFT_ROWS: usize = 120;

/// Number of rows of `out` that are multiplied with all blocks of a packed right side before the next rows:
/// with 192 columns 18 KB, which are still in the first-level cache when the next block is added.
const ALL_BLOCKS_ROWS: usize = 24;

/// Number of columns of the right side that are packed at once: with 256 rows 512 KB.
const RIGHT_COLUMNS: usize = 512;

/// Memory of a thread, kept between calls.
#[derive(Default)]
struct Scratch {
    right: Vec<Line>,
    left: Vec<f32>,
}

thread_local! {
    static SCRATCH: Cell<Scratch> = const { Cell::new(Scratch { right: Vec::new(), left: Vec::new() }) };
}

/// See the [crate](crate).
#[inline(always)]
pub(crate) fn matmul<S: Simd>(simd: S, product: Product<'_, '_>) {
    let Product { update, lower, a, b, mut out } = product;
    if out.is_empty() || a.ncols() == 0 {
        if !update.add {
            out.fill(0.0);
        }
        return;
    }
    let is_row_major = out.ncols() == 1 || out.strides()[1] == 1;
    match b {
        // out^T = b^T a^T: the factors of every product are exchanged, which changes no bit.
        Matrix::View(b) if !is_row_major && out.strides()[0] == 1 && !lower => {
            let (a, b, out) = (b.reversed_axes(), Matrix::View(a.reversed_axes()), out.reversed_axes());
            row_major(simd, Product { update, lower, a, b, out });
        }
        b if !is_row_major => {
            let mut copy = out.to_owned();
            row_major(simd, Product { update, lower, a, b, out: copy.view_mut() });
            out.assign(&copy);
        }
        b => row_major(simd, Product { update, lower, a, b, out }),
    }
}

/// The product if rows of `out` are contiguous.
#[inline(always)]
fn row_major<S: Simd>(simd: S, Product { update, lower, a, b, mut out }: Product<'_, '_>) {
    let mut scratch = SCRATCH.take();
    let row_lines = lines_of_row(S::f32s::LEN);
    let (n_k, n) = (a.ncols(), out.ncols());
    let mut rows: Vec<&mut [f32]> = out
        .rows_mut()
        .into_iter()
        .map(|row| row.into_slice().expect("rows of `out` are contiguous"))
        .collect();
    // Blocks of the right side with their update: the first sum replaces the contents of `out`, the others
    // are added.
    let blocks = (0..n_k).step_by(BLOCK).map(
        #[inline(always)]
        |first| (first..(first + BLOCK).min(n_k), Update { add: update.add || first > 0, ..update }),
    );
    match &b {
        Matrix::Packed(right) => {
            for first in (0..rows.len()).step_by(ALL_BLOCKS_ROWS) {
                let part = first..(first + ALL_BLOCKS_ROWS).min(rows.len());
                for (ks, update) in blocks.clone() {
                    let a = a.slice(s![part.clone(), ks.clone()]);
                    // Only `gram`, whose right side is a view, needs less than all of `out`.
                    let block = Block { update, lower: false, lines: right.block(ks), columns: 0..n };
                    by_left_rows(simd, block, a, &mut scratch.left, &mut rows[part.clone()]);
                }
            }
        }
        Matrix::View(b) => {
            for (ks, update) in blocks {
                let a = a.slice(s![.., ks.clone()]);
                for column in (0..n).step_by(RIGHT_COLUMNS) {
                    let columns = column..(column + RIGHT_COLUMNS).min(n);
                    let n_lines = n_lines(ks.len(), columns.len(), row_lines);
                    scratch.right.resize(scratch.right.len().max(n_lines), Line::ZEROS);
                    let lines = &mut scratch.right[..n_lines];
                    panels::pack(simd, b.slice(s![ks.clone(), columns.clone()]), row_lines, lines);
                    let block = Block { update, lower, lines, columns };
                    by_left_rows(simd, block, a, &mut scratch.left, &mut rows);
                }
            }
        }
    }
    SCRATCH.set(scratch);
}

/// A packed block of the right side.
struct Block<'a> {
    update: Update,
    lower: bool,
    lines: &'a [Line],
    /// Columns of `out`.
    columns: Range<usize>,
}

/// Products of all rows of `a` (m, n_k), `n_k` at most [`BLOCK`], with a block.
#[inline(always)]
fn by_left_rows<S: Simd>(
    simd: S,
    block: Block<'_>,
    a: ArrayView2<'_, f32>,
    copied: &mut Vec<f32>,
    out: &mut [&mut [f32]],
) {
    let (n_rows, n_k) = a.dim();
    let is_row_major = n_k == 1 || a.strides()[1] == 1;
    if !is_row_major {
        copied.resize(copied.len().max(LEFT_ROWS.min(n_rows) * STRIDE), 0.0);
    }
    for first in (0..n_rows).step_by(LEFT_ROWS) {
        let rows = first..(first + LEFT_ROWS).min(n_rows);
        if block.lower && block.columns.start >= rows.end {
            continue;
        }
        let a = a.slice(s![rows.clone(), ..]);
        let left: Vec<&[f32]> = if is_row_major {
            a.outer_iter().map(|row| row.to_slice().expect("rows of `a` are contiguous")).collect()
        } else {
            left::copy(simd, a, copied);
            copied.chunks(STRIDE).take(rows.len()).map(|row| &row[..n_k]).collect()
        };
        let out = &mut out[rows.clone()];
        match S::f32s::LEN {
            16 => by_panels::<S, 12, 2, 2>(simd, &block, rows, &left, out),
            8 => by_panels::<S, 6, 2, 1>(simd, &block, rows, &left, out),
            _ => by_panels::<S, 6, 4, 1>(simd, &block, rows, &left, out),
        }
    }
}

/// Products of some rows with all panels: a panel stays in the first-level cache while the rows are
/// processed, `M` at a time.
#[inline(always)]
fn by_panels<S: Simd, const M: usize, const V: usize, const L: usize>(
    simd: S,
    block: &Block<'_>,
    rows: Range<usize>,
    left: &[&[f32]],
    out: &mut [&mut [f32]],
) {
    let (width, n_k) = (L * LINE, left[0].len());
    let panels = block.lines.chunks_exact(L * n_k);
    for (panel, column) in panels.zip(block.columns.clone().step_by(width)) {
        let columns = column..(column + width).min(block.columns.end);
        let mut at = 0;
        while at < left.len() {
            // Full tiles, then ever smaller ones.
            let n = match left.len() - at {
                n if n >= M => M,
                n if n >= 8 => 8,
                n if n >= 4 => 4,
                n => n,
            };
            let (rows_of_tile, first) = (at..at + n, rows.start + at);
            at += n;
            // Rows that end before the panel begins are above the diagonal.
            if block.lower && first + n <= column {
                continue;
            }
            let (left, columns) = (&left[rows_of_tile.clone()], columns.clone());
            let out = &mut out[rows_of_tile];
            match n {
                n if n == M => tile::<S, M, V, L>(simd, left, panel, block.update, out, columns),
                1 => tile::<S, 1, V, L>(simd, left, panel, block.update, out, columns),
                2 => tile::<S, 2, V, L>(simd, left, panel, block.update, out, columns),
                3 => tile::<S, 3, V, L>(simd, left, panel, block.update, out, columns),
                4 => tile::<S, 4, V, L>(simd, left, panel, block.update, out, columns),
                _ => tile::<S, 8, V, L>(simd, left, panel, block.update, out, columns),
            }
        }
    }
}

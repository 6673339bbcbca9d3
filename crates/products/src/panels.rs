//! The right side in the layout of the kernels.
//!
//! A panel is `W` neighboring columns of a block of rows, stored row by row, so that one step of a sum reads
//! complete, consecutive cache lines. Columns beyond the last are zeros.

use fearless_simd::{Simd, SimdBase, f32x4};
use fearless_simd_macros::simd;
use ndarray::ArrayView2;

pub(crate) const LINE: usize = 16;

#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
pub(crate) struct Line(pub [f32; LINE]);

impl Line {
    pub const ZEROS: Line = Line([0.0; LINE]);
}

/// Lines per row of a panel for vectors of this many floats: a kernel has two vectors of 16 or of 8, or four
/// of 4.
pub(crate) const fn lines_of_row(vector_elems: usize) -> usize {
    if vector_elems == 16 { 2 } else { 1 }
}

/// Lines of all panels of (n_k, n).
pub(crate) fn n_lines(n_k: usize, n: usize, row_lines: usize) -> usize {
    n.div_ceil(row_lines * LINE) * row_lines * n_k
}

/// Packs `b` (n_k, n) into `lines`, panel by panel, in plain loops.
pub(crate) fn pack_plain(b: ArrayView2<'_, f32>, row_lines: usize, lines: &mut [Line]) {
    let (n_k, n) = b.dim();
    let width = row_lines * LINE;
    for (at, line) in lines.iter_mut().enumerate() {
        let (row, panel) = (at / row_lines % n_k, at / row_lines / n_k);
        let first = panel * width + at % row_lines * LINE;
        line.0 = std::array::from_fn(|j| if first + j < n { b[[row, first + j]] } else { 0.0 });
    }
}

/// Packs `b` (n_k, n) with vectors.
#[simd]
pub(crate) fn pack<S: Simd>(simd: S, b: ArrayView2<'_, f32>, row_lines: usize, lines: &mut [Line]) {
    let (n_k, n) = b.dim();
    let width = row_lines * LINE;
    if n_k == 0 || n == 0 {
        return;
    }
    if b.strides()[1] == 1 || n == 1 {
        // Rows are contiguous: each is divided into pieces of a panel's width.
        for (k, row) in b.rows().into_iter().enumerate() {
            let row = row.to_slice().expect("the stride between columns is 1");
            for (panel, row) in row.chunks(width).enumerate() {
                let at = (panel * n_k + k) * row_lines;
                let lines = &mut lines[at..at + row_lines];
                for (line, piece) in lines.iter_mut().zip(row.chunks(LINE).chain(std::iter::repeat(&[][..])))
                {
                    match piece.try_into() {
                        Ok(whole) => line.0 = whole,
                        Err(_) => {
                            line.0[..piece.len()].copy_from_slice(piece);
                            line.0[piece.len()..].fill(0.0);
                        }
                    }
                }
            }
        }
        return;
    }
    for panel in 0..n.div_ceil(width) {
        let lines = &mut lines[panel * n_k * row_lines..(panel + 1) * n_k * row_lines];
        for quad in (0..width).step_by(4) {
            // Four columns at a time, with their position in a row of the panel.
            let (line, at, first) = (quad / LINE, quad % LINE, panel * width + quad);
            let columns = b.strides()[0] == 1 || n_k == 1;
            if columns && first + 4 <= n {
                let column = |j: usize| b.column(first + j).to_slice().expect("the stride between rows is 1");
                pack_columns(simd, [column(0), column(1), column(2), column(3)], row_lines, line, at, lines);
                continue;
            }
            for k in 0..n_k {
                for j in 0..4 {
                    let value = if first + j < n { b[[k, first + j]] } else { 0.0 };
                    lines[k * row_lines + line].0[at + j] = value;
                }
            }
        }
    }
}

/// Writes four columns (n_k) into a panel: element `k` of each to floats `at..at + 4` of line `line` of row
/// `k`.
#[inline(always)]
fn pack_columns<S: Simd>(
    simd: S,
    columns: [&[f32]; 4],
    row_lines: usize,
    line: usize,
    at: usize,
    lines: &mut [Line],
) {
    let n_k = columns[0].len();
    let whole = n_k - n_k % 4;
    for k in (0..whole).step_by(4) {
        let rows = transposed(simd, columns, k);
        for (t, row) in rows.into_iter().enumerate() {
            row.store_slice(&mut lines[(k + t) * row_lines + line].0[at..at + 4]);
        }
    }
    for k in whole..n_k {
        for j in 0..4 {
            lines[k * row_lines + line].0[at + j] = columns[j][k];
        }
    }
}

/// Elements `at..at + 4` of four slices, transposed: vector `t` contains element `at + t` of each.
#[inline(always)]
pub(crate) fn transposed<S: Simd>(simd: S, from: [&[f32]; 4], at: usize) -> [f32x4<S>; 4] {
    let row = [
        f32x4::from_slice(simd, &from[0][at..at + 4]),
        f32x4::from_slice(simd, &from[1][at..at + 4]),
        f32x4::from_slice(simd, &from[2][at..at + 4]),
        f32x4::from_slice(simd, &from[3][at..at + 4]),
    ];
    // Zipping rows 0 and 2, 1 and 3, and the results once more brings each column together.
    let (even, odd) = (row[0].zip_low(row[2]), row[1].zip_low(row[3]));
    let (even_high, odd_high) = (row[0].zip_high(row[2]), row[1].zip_high(row[3]));
    [even.zip_low(odd), even.zip_high(odd), even_high.zip_low(odd_high), even_high.zip_high(odd_high)]
}

//! Products of integers in blocks with float scales: rows rounded to 8 bits with quantized weights, like in
//! llama.cpp.
//!
//! ```text
//! a_ik = f_ip x_ik                           x 8 bits, f the scale of block p of row i
//! b_kj = d_pj s_gj (w_kj - o) + m_pj u_hj    w a byte, o the offset of its type, s the integer scale of group g of elements,
//!                                            u the minimum of group h
//!
//! out_ij = fma(f_ip m_pj, sum_h u_hj sum_{k in h} x_ik, fma(f_ip d_pj, sum_g s_gj sum_{k in g} x_ik (w_kj - o), out_ij))
//!                                            blocks p ascending from 0
//! ```
//!
//! The sums inside a block are exact. So the order of all rounded operations is fixed, like for
//! [floats](crate), and every level gives the same bits, however it computes the sums. If an instruction
//! multiplies and adds up four neighboring bytes (`vpdpbusd`), the right side stays bytes, and sums start at
//! the contribution of the offset. With AVX2 this is done in 16 bits (`vpmaddubsw`) for types whose bytes are
//! small enough. Otherwise the right side is `s (w - o)` in 16 bits, whose pairs are multiplied by
//! `vpmaddwd`.

#[cfg(target_arch = "x86_64")]
mod bytes;
mod bytes_256;
mod direct;
mod few;
mod quants;
#[cfg(target_arch = "x86_64")]
mod short_sums;
mod totals;
mod weights;
mod words;

pub use few::{Single, multiplies_stored};
pub use quants::{BlockForm, Quants, RowsMut};
pub use weights::Weights;

use fearless_simd::{Simd, SimdBase, SimdCvtFloat, SimdFloat, SimdIntWiden};
use fearless_simd_macros::simd;
use gguf_quant::Vectors;
use ndarray::ArrayViewMut2;

use crate::{
    fused,
    panels::{LINE, Line, lines_of_row},
};
use quants::Row;
use weights::IntLine;

/// Number of rows of the left side that are multiplied with all panels before the next rows.
const LEFT_ROWS: usize = 120;

/// `x (m, k) @ weights (k, n) -> out (m, n)`, for some rows of `x`.
///
/// # Panics
/// If shapes, forms of blocks or levels do not fit, or rows of `out` are not contiguous.
pub fn matmul_integers(
    x: &Quants,
    rows: std::ops::Range<usize>,
    weights: &Weights,
    out: ArrayViewMut2<'_, f32>,
) {
    assert_eq!((x.form(), x.n_k()), (weights.form(), weights.n_k()), "both sides have the same blocks");
    assert_eq!(x.level(), weights.level(), "both sides are for the same kernels");
    assert_eq!(out.dim(), (rows.len(), weights.n()), "shapes of a product fit");
    weights.level().run(Product { x, first: rows.start, weights, out });
}

struct Product<'a, 'o> {
    x: &'a Quants,
    /// Row of `x` that becomes the first row of `out`.
    first: usize,
    weights: &'a Weights,
    out: ArrayViewMut2<'o, f32>,
}

impl Vectors for Product<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        #[cfg(target_arch = "x86_64")]
        match (self.weights.words(), simd.level().as_avx512(), simd.level().as_avx2()) {
            (words::Words::Bytes, Some(token), _) => return blocked(bytes::Bytes(token), self),
            (words::Words::ShortSums { run }, _, Some(token)) => {
                return blocked(short_sums::ShortSums { token, run }, self);
            }
            _ => {}
        }
        match S::f32s::LEN {
            16 | 8 => blocked(Pairs::<S, 4, 2>(simd), self),
            _ => blocked(Pairs::<S, 4, 4>(simd), self),
        }
    }

    fn scalar(self) {
        let Product { x, first, weights, mut out } = self;
        let form = x.form();
        for ((i, j), out) in out.indexed_iter_mut() {
            let mut total = 0.0;
            for p in 0..x.n_blocks() {
                let (levels, minima) = (0..form.elems, 0..form.n_minima);
                let sum = |terms: &mut dyn Iterator<Item = i32>| terms.sum::<i32>() as f32;
                let main = sum(&mut levels.map(|k| x.element(first + i, p, k) * weights.level_of(p, k, j)));
                total = fused(x.scale(first + i, p) * weights.scale(p, j), main, total);
                if form.n_minima > 0 {
                    let rest =
                        sum(&mut minima.map(|g| x.group_sum(first + i, p, g) * weights.minimum(p, g, j)));
                    total = fused(x.scale(first + i, p) * weights.min_scale(p, j), rest, total);
                }
            }
            *out = total;
        }
    }
}

/// Products of rows of the left side with one panel of the right side, at one level.
trait Tiles: Copy {
    /// Rows per tile, at most 6.
    const ROWS: usize;
    /// Elements of blocks that are processed together, so that their panel stays in the first-level cache.
    const GROUP_ELEMS: usize;
    fn width(self) -> usize;

    /// `N` rows with some blocks of a panel; only the first `columns` are used.
    fn tile<const N: usize>(
        self,
        form: BlockForm,
        rows: &[Row<'_>],
        panel: Panel<'_>,
        is_first: bool,
        out: &mut [&mut [f32]],
        columns: std::ops::Range<usize>,
    );
}

/// Tiles of `M` rows that multiply pairs of 16 bits, with `V` vectors per panel.
#[derive(Clone, Copy)]
struct Pairs<S, const M: usize, const V: usize>(S);

impl<S: Simd, const M: usize, const V: usize> Tiles for Pairs<S, M, V> {
    const ROWS: usize = M;
    /// 16 KB with 16 columns.
    const GROUP_ELEMS: usize = 512;

    #[inline(always)]
    fn width(self) -> usize {
        lines_of_row(S::f32s::LEN) * LINE
    }

    #[inline(always)]
    fn tile<const N: usize>(
        self,
        form: BlockForm,
        rows: &[Row<'_>],
        panel: Panel<'_>,
        is_first: bool,
        out: &mut [&mut [f32]],
        columns: std::ops::Range<usize>,
    ) {
        tile::<S, N, V>(self.0, form, rows, panel, is_first, out, columns);
    }
}

/// Divides the product into blocks that fit the caches, like for floats.
#[inline(always)]
fn blocked<T: Tiles>(tiles: T, product: Product<'_, '_>) {
    let Product { x, first, weights, mut out } = product;
    let form = x.form();
    let (n, n_blocks, width) = (out.ncols(), x.n_blocks(), tiles.width());
    let mut out: Vec<&mut [f32]> = out
        .rows_mut()
        .into_iter()
        .map(|row| row.into_slice().expect("rows of `out` are contiguous"))
        .collect();
    if n_blocks == 0 {
        out.iter_mut().for_each(|row| row.fill(0.0));
    }
    let blocks_at_once = blocks_at_once(T::GROUP_ELEMS, form, n_blocks);
    for block in (0..n_blocks).step_by(blocks_at_once) {
        let (blocks, is_first) = (block..(block + blocks_at_once).min(n_blocks), block == 0);
        for (at, out) in (0..).step_by(LEFT_ROWS).zip(out.chunks_mut(LEFT_ROWS)) {
            let rows: Vec<Row<'_>> = (0..out.len()).map(|i| x.row(first + at + i, blocks.clone())).collect();
            for (panel, column) in (0..n).step_by(width).enumerate() {
                let columns = column..(column + width).min(n);
                let panel = weights.panel(panel, blocks.clone());
                for (rows, out) in rows.chunks(T::ROWS).zip(out.chunks_mut(T::ROWS)) {
                    let columns = columns.clone();
                    match rows.len() {
                        1 => tiles.tile::<1>(form, rows, panel, is_first, out, columns),
                        2 => tiles.tile::<2>(form, rows, panel, is_first, out, columns),
                        3 => tiles.tile::<3>(form, rows, panel, is_first, out, columns),
                        4 => tiles.tile::<4>(form, rows, panel, is_first, out, columns),
                        5 => tiles.tile::<5>(form, rows, panel, is_first, out, columns),
                        _ => tiles.tile::<6>(form, rows, panel, is_first, out, columns),
                    }
                }
            }
        }
    }
}

/// Number of blocks that are processed together: about this many elements, evenly divided.
fn blocks_at_once(elems: usize, form: BlockForm, n_blocks: usize) -> usize {
    let n_groups = (n_blocks * form.elems).div_ceil(elems).max(1);
    n_blocks.div_ceil(n_groups).max(1)
}

#[derive(Clone, Copy)]
pub(crate) struct Panel<'a> {
    /// For each block: lines of words, then of integer scales if words are bytes, then of pairs of minima.
    lines: &'a [IntLine],
    /// For each block: lines of `d`, then of `m` if there are minima.
    scales: &'a [Line],
}

/// `M` rows with some blocks of a panel of `V` vectors; only the first `columns` are used.
#[simd]
fn tile<S: Simd, const M: usize, const V: usize>(
    simd: S,
    form: BlockForm,
    rows: &[Row<'_>],
    panel: Panel<'_>,
    is_first: bool,
    out: &mut [&mut [f32]],
    columns: std::ops::Range<usize>,
) {
    let elems = S::f32s::LEN;
    let row_lines = V * elems / LINE;
    let (n_pairs, n_min_pairs) = (form.elems / 2, form.n_minima.div_ceil(2));
    let scale_lines = if form.n_minima > 0 { 2 * row_lines } else { row_lines };
    let mut totals = totals::first::<S, M, V>(simd, is_first, out, &columns);
    let blocks = panel.lines.chunks_exact((n_pairs + n_min_pairs) * row_lines);
    for (block, (lines, scales)) in blocks.zip(panel.scales.chunks_exact(scale_lines)).enumerate() {
        let (lines, min_lines) = lines.split_at(n_pairs * row_lines);
        let (d, m) = scales.split_at(row_lines);
        let mut pairs = [&[][..]; M];
        for i in 0..M {
            pairs[i] = &rows[i].pairs[block * n_pairs..(block + 1) * n_pairs];
        }
        let sums = dot::<S, M, V>(simd, pairs, lines);
        add_scaled::<S, M, V>(simd, &mut totals, rows, block, d, &sums);
        if n_min_pairs == 0 {
            continue;
        }
        for i in 0..M {
            pairs[i] = &rows[i].sums[block * n_min_pairs..(block + 1) * n_min_pairs];
        }
        let sums = dot::<S, M, V>(simd, pairs, min_lines);
        add_scaled::<S, M, V>(simd, &mut totals, rows, block, m, &sums);
    }
    totals::write::<S, M, V>(simd, &totals, out, columns);
}

/// `total_ij <- fma(f_i d_j, sum_ij, total_ij)` with the scales of a block.
#[inline(always)]
fn add_scaled<S: Simd, const M: usize, const V: usize>(
    simd: S,
    totals: &mut [[S::f32s; V]; M],
    rows: &[Row<'_>],
    block: usize,
    scales: &[Line],
    sums: &[[S::i32s; V]; M],
) {
    for i in 0..M {
        let scale = S::f32s::splat(simd, rows[i].scales[block]);
        for v in 0..V {
            let factor = scale * floats::<S>(simd, scales, v);
            totals[i][v] = factor.mul_add_precise(S::f32s::float_from(sums[i][v]), totals[i][v]);
        }
    }
}

/// Vector `v` of floats stored in lines.
#[inline(always)]
fn floats<S: Simd>(simd: S, lines: &[Line], v: usize) -> S::f32s {
    let at = v * S::f32s::LEN;
    S::f32s::from_slice(simd, &lines[at / LINE].0[at % LINE..at % LINE + S::f32s::LEN])
}

/// The sum over pairs of `x_2k w_2k + x_2k+1 w_2k+1`, for `M` rows and a panel.
#[inline(always)]
fn dot<S: Simd, const M: usize, const V: usize>(
    simd: S,
    rows: [&[i32]; M],
    lines: &[IntLine],
) -> [[S::i32s; V]; M] {
    let row_lines = V * S::i32s::LEN / LINE;
    let n_pairs = lines.len() / row_lines;
    let mut pairs = [&[][..]; M];
    for i in 0..M {
        pairs[i] = &rows[i][..n_pairs];
    }
    let mut sums = [[S::i32s::splat(simd, 0); V]; M];
    let mut steps = lines.chunks_exact(row_lines);
    for pair in 0..n_pairs {
        let Some(lines) = steps.next() else { break };
        let mut w = [S::i16s::splat(simd, 0); V];
        for v in 0..V {
            let at = v * S::i32s::LEN;
            let line = &lines[at / LINE].0;
            let words = S::i32s::from_slice(simd, &line[at % LINE..at % LINE + S::i32s::LEN]);
            w[v] = fearless_simd::Bytes::bitcast(words);
        }
        for i in 0..M {
            // One pair of the left side for all columns.
            let x: S::i16s = fearless_simd::Bytes::bitcast(S::i32s::splat(simd, pairs[i][pair]));
            for v in 0..V {
                sums[i][v] += x.pairwise_dot_product(w[v]);
            }
        }
    }
    sums
}

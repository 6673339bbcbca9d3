//! Products with weights that stay as they are stored.
//!
//! A tile of weight rows is decoded into f32 and packed for the kernels once, and multiplied with all rows of the input, a block of
//! them at a time, so that a decoded weight serves every token of a batch and a large one never exists completely.

use std::{cell::Cell, ops::Range};

use gguf_products::{
    Right,
    integers::{BlockForm, Quants, Single, Weights, matmul_integers, multiplies_stored},
    matmul, matmul_packed, multiply_row,
};
use gguf_quant::{IntegerBlocks, Level};
use ndarray::{ArrayView2, ArrayViewMut2, Axis, s};
use rayon::prelude::*;

use super::{
    Rows,
    rounding::{quantize, round_into},
};
use crate::{
    tiles::{Kept, Tiles},
    weights::{LowRank, Weight},
};

/// Bytes of a decoded tile, about, so that it stays in a core's second cache.
const TILE_BYTES: usize = 1536 << 10;

/// Elements of the tiles that are packed before the products with them begin.
const GROUP_ELEMS: usize = 4 << 20;

/// Rows of the input that a tile is multiplied with at once.
const BLOCK_ROWS: usize = 512;

/// A weight (n_out, n_in), from `first` of its stack, and the place of its product with the input.
pub struct Product<'a> {
    pub weight: &'a Weight,
    /// Index of the matrix in the stack.
    pub index: usize,
    /// (n_rows, n_out).
    pub out: ArrayViewMut2<'a, f32>,
}

/// `scale * a (m, k) @ b (k, n) -> out (m, n)`, on the thread that calls.
pub fn dense(scale: f32, a: ArrayView2<'_, f32>, b: ArrayView2<'_, f32>, out: ArrayViewMut2<'_, f32>) {
    matmul(Level::detect(), false, scale, a, b, out);
}

/// With so few rows of input, packing a tile for the kernels costs more than they save.
const FEW_ROWS: usize = 3;

/// Backward pass through a product with matrix `index` of a stack, or with the only one, 0: `gradients
/// (n_rows, n_out) @ weight (n_out, n_in) -> out (n_rows, n_in)`, or added to it.
///
/// Rows of the weight are decoded in stretches of complete blocks of the sum's order ([`gguf_products::BLOCK`]), so
/// the division changes no bit.
pub fn mul_backward(
    gradients: ArrayView2<'_, f32>,
    weight: &Weight,
    index: usize,
    add: bool,
    mut out: ArrayViewMut2<'_, f32>,
) {
    let (level, n_in) = (Level::detect(), weight.n_in.max(1));
    let stretch = (GROUP_ELEMS / n_in / gguf_products::BLOCK).max(1) * gguf_products::BLOCK;
    let mut decoded = vec![0.0; stretch.min(weight.n_out) * n_in];
    for first in (0..weight.n_out).step_by(stretch) {
        let end = weight.n_out.min(first + stretch);
        let weights = &mut decoded[..(end - first) * n_in];
        // A few rows for each task: enough that a lock for each costs nothing.
        weights.par_chunks_mut(64 * n_in).enumerate().for_each(|(at, rows)| {
            let from = index * weight.n_out + first + 64 * at;
            weight
                .decode(level, from..from + rows.len() / n_in, rows)
                .expect("a weight of a checked type and shape decodes");
        });
        let weights = ArrayView2::from_shape((end - first, n_in), &*weights).expect("whole rows");
        let gradients = gradients.slice(s![.., first..end]);
        let blocks = gradients.axis_chunks_iter(Axis(0), BLOCK_ROWS / 2).into_par_iter();
        let outs = out.axis_chunks_iter_mut(Axis(0), BLOCK_ROWS / 2).into_par_iter();
        blocks.zip(outs).for_each(|(gradients, out)| {
            matmul(level, add || first > 0, 1.0, gradients, weights, out);
        });
    }
    // (W + s B A)^T g = W^T g + A^T (s B^T g)
    for LowRank { a, b, scale, .. } in weight.low_rank() {
        let mut narrow = Rows::zeros(gradients.nrows(), a.n_out);
        mul_backward(gradients.view(), b, index, false, narrow.view_mut());
        narrow *= *scale;
        mul_backward(narrow.view(), a, index, true, out.view_mut());
    }
}

/// Rows of a weight that are decoded at once for a few rows of input: 24 KB with 768 columns, which stay in the first cache.
const FEW_DECODED: usize = 8;

/// Some rows of a weight, and where their products go.
struct Tile<'a> {
    weight: &'a Weight,
    /// Counted over the entire stack.
    rows: Range<usize>,
    /// (n_rows, rows).
    out: ArrayViewMut2<'a, f32>,
}

impl Tile<'_> {
    fn n_decoded(&self) -> usize {
        self.rows.len() * self.weight.n_in
    }
}

/// The transpose (n_in, rows) of a tile as kernels read it.
trait Packed: Default + Send + Sync {
    /// Left operand of tiles: (n_rows, n_in).
    type Left<'x>: Copy + Sync;

    /// Memory for tiles of this kind.
    fn kept(tiles: &Tiles) -> &Kept<Self>;

    /// Packs a tile, replacing the previous one.
    fn pack(&mut self, level: Level, tile: &Tile<'_>);

    /// Some rows of the left side times the tile.
    fn multiply(&self, x: Self::Left<'_>, rows: Range<usize>, out: ArrayViewMut2<'_, f32>);
}

impl Packed for Right {
    type Left<'x> = ArrayView2<'x, f32>;

    fn kept(tiles: &Tiles) -> &Kept<Right> {
        &tiles.floats
    }

    fn pack(&mut self, level: Level, Tile { weight, rows, .. }: &Tile<'_>) {
        self.pack_rows(level, rows.len(), weight.n_in, |own, out| {
            weight.decode(level, rows.start + own.start..rows.start + own.end, out)
        })
        .expect("a weight of a checked type and shape decodes");
    }

    fn multiply(&self, x: ArrayView2<'_, f32>, rows: Range<usize>, out: ArrayViewMut2<'_, f32>) {
        matmul_packed(false, 1.0, x.slice(s![rows, ..]), self, out);
    }
}

impl Packed for Weights {
    type Left<'x> = &'x Quants;

    fn kept(tiles: &Tiles) -> &Kept<Weights> {
        &tiles.integers
    }

    fn pack(&mut self, level: Level, Tile { weight, rows, .. }: &Tile<'_>) {
        let form = weight.block_form().expect("products of integers have blocks of integers");
        self.pack_rows(level, form, rows.len(), weight.n_in, |own, out| {
            weight.take_apart(level, rows.start + own.start..rows.start + own.end, out)
        })
        .expect("a weight of a checked type and shape decodes");
    }

    fn multiply(&self, x: &Quants, rows: Range<usize>, out: ArrayViewMut2<'_, f32>) {
        matmul_integers(x, rows, self, out);
    }
}

/// The products of `x` (n_rows, n_in) with weights, `out = W x`, to which adapters add `s B (A x)`.
///
/// If `is_rounded`, the inputs are rounded as by the reference's CPU kernels.
///
/// Source: `build_lora_mm` and `build_lora_mm_id` in `src/llama-graph.cpp`.
pub fn multiply(is_rounded: bool, x: ArrayView2<'_, f32>, mut products: Vec<Product<'_>>) {
    let plain = if is_rounded { mul_rounded } else { mul_mat };
    if products.iter().all(|product| product.weight.low_rank().next().is_none()) {
        return plain(x, products);
    }
    let own = products.iter_mut().map(|Product { weight, index, out }| Product {
        weight,
        index: *index,
        out: out.view_mut(),
    });
    plain(x, own.collect());
    for Product { weight, index, mut out } in products {
        for LowRank { a, b, scale, .. } in weight.low_rank() {
            let mut narrow = Rows::zeros(x.nrows(), a.n_out);
            plain(x, vec![Product { weight: a, index, out: narrow.view_mut() }]);
            let mut added = Rows::zeros(x.nrows(), b.n_out);
            plain(narrow.view(), vec![Product { weight: b, index, out: added.view_mut() }]);
            out.scaled_add(*scale, &*added);
        }
    }
}

/// The products of `x` (n_rows, n_in) with weights of one type, as the reference does them on CPUs: `x` is rounded to the type that
/// its kernel for these weights takes, and integers are multiplied where both sides are integers in blocks.
fn mul_rounded(x: ArrayView2<'_, f32>, mut products: Vec<Product<'_>>) {
    // Weights of different types see the same input rounded differently: one round for each type.
    let kind = |weight: &Weight| (weight.activation_dtype(), weight.block_form());
    while let Some((dtype, form)) = products.first().map(|product| kind(product.weight)) {
        let (same, remaining) =
            products.into_iter().partition(|product| kind(product.weight) == (dtype, form));
        products = remaining;
        match (dtype, form) {
            (Some(dtype), Some(form)) => mul_integers(&quantize(x, dtype, form), x.nrows(), same),
            (Some(dtype), None) => {
                let mut rounded = Rows::zeros(x.nrows(), x.ncols());
                round_into(x, dtype, &mut rounded);
                mul_mat(rounded.view(), same);
            }
            (None, _) => mul_mat(x, same),
        }
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
            let (out, remaining) = rest.split_at(Axis(1), n);
            tiles.push(Tile { weight, rows: first..first + n, out });
            (rest, first) = (remaining, first + n);
        }
    }
    tiles
}

thread_local! {
    /// A decoded tile of a thread's own, kept between products of few rows. It belongs to the thread and not to a pass:
    /// a pool of threads serves many passes, and in generation a pass is one token.
    static TILE: Cell<Vec<f32>> = const { Cell::new(Vec::new()) };
    /// Like this, for rows of integers.
    static TAKEN: Cell<Taken> = Cell::default();
}

/// `x (n_rows, n_in) @ weight (n_out, n_in)^T -> out (n_rows, n_out)`, for several weights at once.
fn mul_mat(x: ArrayView2<'_, f32>, products: Vec<Product<'_>>) {
    let level = Level::detect();
    let tiles = tiles(x.nrows(), products);
    if x.nrows() <= FEW_ROWS {
        return tiles.into_par_iter().for_each(|mut tile| {
            // Generation: a thread decodes a few rows and multiplies them at once, while they are in the core's first cache.
            let mut decoded = TILE.take();
            let n_in = tile.weight.n_in;
            decoded.resize(decoded.len().max(FEW_DECODED * n_in), 0.0);
            for first in (0..tile.rows.len()).step_by(FEW_DECODED) {
                let rows = first..(first + FEW_DECODED).min(tile.rows.len());
                let weights = &mut decoded[..rows.len() * n_in];
                tile.weight
                    .decode(level, tile.rows.start + rows.start..tile.rows.start + rows.end, weights)
                    .expect("a weight of a checked type and shape decodes");
                for (x, mut out) in x.rows().into_iter().zip(tile.out.rows_mut()) {
                    let x = x.to_slice().expect("the input of products is whole rows");
                    let out = out.as_slice_mut().expect("rows of the output are contiguous");
                    multiply_row(level, x, weights, &mut out[rows.clone()]);
                }
            }
            TILE.set(decoded);
        });
    }
    mul_tiles::<Right>(level, x, x.nrows(), tiles);
}

/// Like this, for rows of 8 bits and weights whose blocks have their form.
fn mul_integers(x: &Quants, n_rows: usize, products: Vec<Product<'_>>) {
    let level = Level::detect();
    let tiles = tiles(n_rows, products);
    if n_rows > FEW_ROWS {
        return mul_tiles::<Weights>(level, x, n_rows, tiles);
    }
    let rows: Vec<Single> = (0..n_rows).map(|i| Single::new(x, i)).collect();
    tiles.into_par_iter().for_each(|mut tile| {
        let Tile { weight, rows: own, out } = &mut tile;
        let is_done = weight.with_blocks(own.clone(), |dtype, blocks| {
            let has_kernel = multiplies_stored(level, dtype);
            for (x, mut out) in rows.iter().zip(out.rows_mut()).filter(|_| has_kernel) {
                let out = out.as_slice_mut().expect("rows of the output are contiguous");
                x.multiply_stored(level, dtype, blocks, out);
            }
            has_kernel
        });
        if is_done {
            return;
        }
        let mut taken = TAKEN.take();
        let form = tile.weight.block_form().expect("products of integers have blocks of integers");
        let mut blocks = taken.blocks(form, tile.n_decoded());
        tile.weight
            .take_apart(level, tile.rows.clone(), blocks.lent())
            .expect("a weight of a checked type and shape decodes");
        for (x, mut out) in rows.iter().zip(tile.out.rows_mut()) {
            x.multiply(level, &blocks, out.as_slice_mut().expect("rows of the output are contiguous"));
        }
        TAKEN.set(taken);
    });
}

/// Rows of a weight that are taken apart, in memory that is used again.
#[derive(Default)]
struct Taken {
    levels: Vec<u8>,
    scales: Vec<f32>,
    int_scales: Vec<i16>,
    minima: Vec<i16>,
    min_scales: Vec<f32>,
}

impl Taken {
    /// Room for blocks of this many elements together.
    fn blocks(&mut self, form: BlockForm, n_elems: usize) -> IntegerBlocks<'_> {
        fn first<T: Copy + Default>(buffer: &mut Vec<T>, n: usize) -> &mut [T] {
            buffer.resize(buffer.len().max(n), T::default());
            &mut buffer[..n]
        }
        let n = n_elems / form.elems;
        IntegerBlocks {
            levels: first(&mut self.levels, n_elems),
            scales: first(&mut self.scales, n),
            int_scales: first(&mut self.int_scales, n * form.n_scales),
            minima: first(&mut self.minima, n * form.n_minima),
            min_scales: first(&mut self.min_scales, if form.n_minima > 0 { n } else { 0 }),
        }
    }
}

/// The products of rows with tiles, in groups of bounded size: all of a group are packed side by side, then multiplied.
fn mul_tiles<P: Packed>(level: Level, x: P::Left<'_>, n_rows: usize, tiles: Vec<Tile<'_>>) {
    // The products of one call belong to one model, whose weights share their memory.
    let Some(kept) = tiles.first().map(|tile| P::kept(tile.weight.tiles())) else { return };
    let mut packed = kept.take();
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
        // Never fewer: their memory serves the next group and the next product.
        packed.resize_with(packed.len().max(together.len()), P::default);
        mul_group(level, x, n_rows, together, &mut packed);
    }
    kept.put(packed);
}

/// The products of rows with tiles, each of which is decoded and packed first, once.
fn mul_group<P: Packed>(level: Level, x: P::Left<'_>, n_rows: usize, tiles: Vec<Tile<'_>>, packed: &mut [P]) {
    // Step 1: every tile packed, by whichever thread is free.
    let both = tiles.par_iter().zip(packed.par_iter_mut()).with_max_len(1);
    both.for_each(|(tile, packed)| packed.pack(level, tile));
    // Step 2: products of (block of input rows, tile). Many small tasks, so that a thread whose core is slower for a while
    // does fewer.
    let n_blocks = n_rows.div_ceil(BLOCK_ROWS).max(1);
    // Blocks of about equal height, in complete groups of rows that a kernel takes.
    let block_rows = n_rows.div_ceil(n_blocks).next_multiple_of(4).max(1);
    let mut tasks = Vec::new();
    for (tile, packed) in tiles.into_iter().zip(&*packed) {
        let mut rest = tile.out;
        for first in (0..n_rows).step_by(block_rows) {
            let rows = first..(first + block_rows).min(n_rows);
            let (out, below) = rest.split_at(Axis(0), rows.len());
            tasks.push((rows, packed, out));
            rest = below;
        }
    }
    tasks.into_par_iter().with_max_len(1).for_each(|(rows, packed, out)| packed.multiply(x, rows, out));
}

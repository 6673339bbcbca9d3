//! Sums of one round of a step.

use std::{collections::BTreeMap, ops::Range};

use gguf_quant::Level;
use gguf_runtime::{Multiplied, Observer, Part, importance::Collector};
use ndarray::{ArrayView2, ArrayViewMut2, Axis, s};
use rayon::prelude::*;

use super::{
    Input,
    plan::{Matrices, PlannedInput},
};
use crate::{Error, Gram};

/// Rows that are loaded together; a multiple of the block size of products ([`gguf_products::BLOCK`]), so the
/// order of sums is that of the text and does not depend on this number or on the thread count.
const BLOCK_ROWS: usize = 2 * gguf_products::BLOCK;

/// Approximate columns of a tile of the sums: enough work for a thread, little waste in the lower triangle.
const TILE_COLUMNS: usize = 192;

/// Accumulates `sum x x^T`: (n_columns, n_columns), upper triangle only.
struct Growing {
    n_columns: usize,
    n_tokens: u64,
    sums: Vec<f32>,
}

impl Growing {
    fn new(n_columns: usize) -> Growing {
        Growing { n_columns, n_tokens: 0, sums: vec![0.0; n_columns * n_columns] }
    }

    /// Adds rows (n, n_columns) on the current thread pool.
    fn add(&mut self, level: Level, rows: &[f32]) {
        let n = self.n_columns;
        self.n_tokens += (rows.len() / n.max(1)) as u64;
        // Tiles of equal width, which depends only on the number of columns.
        let n_tiles = n.div_ceil(TILE_COLUMNS).max(1);
        let width = n.div_ceil(n_tiles).next_multiple_of(16);
        for block in rows.chunks(BLOCK_ROWS * n.max(1)) {
            let block = ArrayView2::from_shape((block.len() / n, n), block).expect("rows are whole");
            let sums = ArrayViewMut2::from_shape((n, n), &mut self.sums[..]).expect("the sums are square");
            let (mut tiles, mut below) = (Vec::new(), sums);
            for top in (0..n).step_by(width) {
                let (band, rest) = below.split_at(Axis(0), width.min(n - top));
                below = rest;
                // Tiles on and right of the diagonal.
                let (_, mut right) = band.split_at(Axis(1), top);
                for left in (top..n).step_by(width) {
                    let (tile, rest) = right.split_at(Axis(1), width.min(n - left));
                    right = rest;
                    tiles.push((top, left, tile));
                }
            }
            tiles.into_par_iter().with_max_len(1).for_each(|(top, left, tile)| {
                // G[i, j] += X_i^T X_j: (columns, rows) @ (rows, columns).
                let x_i = block.slice(s![.., top..top + tile.nrows()]);
                let x_j = block.slice(s![.., left..left + tile.ncols()]);
                gguf_products::matmul(level, true, 1.0, x_i.reversed_axes(), x_j, tile);
            });
        }
    }

    fn finish(self) -> Gram {
        Gram::from_upper(self.n_columns, self.n_tokens, self.sums).expect("the sums are square")
    }
}

/// Both sums of an input: training and held-out tokens.
struct Pair {
    fit: Growing,
    held: Growing,
}

/// The first non-finite input.
struct Fault {
    tensor: String,
    value: f32,
    column: usize,
    row: usize,
}

/// Collects the inputs of one round while batches run.
pub(super) struct Gatherer {
    level: Level,
    pairs: BTreeMap<Matrices, Pair>,
    pub importance: Option<Collector>,
    /// For each token of the batch, true if it is held out.
    is_held: Vec<bool>,
    /// Training rows and held-out rows, if a batch has both.
    apart: [Vec<f32>; 2],
    fault: Option<Fault>,
}

impl Gatherer {
    /// A collector for the inputs of a round.
    pub fn new(round: &[PlannedInput], importance: Option<Collector>) -> Gatherer {
        let pair = |input: &PlannedInput| {
            let new = || Growing::new(input.n_columns);
            (input.of.clone(), Pair { fit: new(), held: new() })
        };
        Gatherer {
            level: Level::detect(),
            pairs: round.iter().map(pair).collect(),
            importance,
            is_held: Vec::new(),
            apart: [Vec::new(), Vec::new()],
            fault: None,
        }
    }

    /// Starts a batch of these chunks, each with its number of tokens and whether it is held out.
    pub fn begin(&mut self, chunks: impl Iterator<Item = (usize, bool)>) {
        self.is_held.clear();
        chunks.for_each(|(n_tokens, is_held)| self.is_held.extend(std::iter::repeat_n(is_held, n_tokens)));
    }

    /// Fails if a value was not finite. `batch` are the chunks that ran, and `lengths` their numbers of
    /// tokens.
    pub fn check(&mut self, batch: Range<usize>, lengths: impl Iterator<Item = usize>) -> Result<(), Error> {
        let Some(Fault { tensor, value, column, row }) = self.fault.take() else { return Ok(()) };
        let (mut chunk, mut token) = (batch.start, row);
        for n_tokens in lengths {
            if token < n_tokens {
                break;
            }
            (chunk, token) = (chunk + 1, token - n_tokens);
        }
        Err(Error::NotFiniteInput { tensor, value, column, chunk: chunk + 1, token: token + 1 })
    }

    /// Collected sums, in name order.
    pub fn finish(self) -> (Vec<Input>, Option<Collector>) {
        let input =
            |(of, pair): (Matrices, Pair)| Input { of, fit: pair.fit.finish(), held: pair.held.finish() };
        (self.pairs.into_iter().map(input).collect(), self.importance)
    }
}

impl Observer for Gatherer {
    fn mul_mat(&mut self, tensor: &str, part: Part, rows: &[f32], n_in: usize) {
        self.multiplied(&Multiplied { by: &[(tensor, part)], rows, n_in, tokens: None });
    }

    fn multiplied(&mut self, call: &Multiplied<'_>) {
        if self.fault.is_some() || call.n_in == 0 {
            return;
        }
        if let Some(at) = call.rows.iter().position(|value| !value.is_finite()) {
            let (row, column) = (at / call.n_in, at % call.n_in);
            let tensor = call.by.first().map_or("", |(tensor, _)| tensor).to_owned();
            let row = call.tokens.map_or(row, |tokens| tokens[row]);
            self.fault = Some(Fault { tensor, value: call.rows[at], column, row });
            return;
        }
        if let Some(importance) = &mut self.importance {
            importance.multiplied(call);
        }
        let key: Matrices = call.by.iter().map(|(tensor, part)| ((*tensor).to_owned(), *part)).collect();
        // Belongs to another round.
        let Some(pair) = self.pairs.get_mut(&key) else { return };
        let n_rows = call.rows.len() / call.n_in;
        let is_held = |row: usize| self.is_held[call.tokens.map_or(row, |tokens| tokens[row])];
        let n_held = (0..n_rows).filter(|row| is_held(*row)).count();
        if n_held == 0 {
            return pair.fit.add(self.level, call.rows);
        }
        if n_held == n_rows {
            return pair.held.add(self.level, call.rows);
        }
        self.apart.iter_mut().for_each(Vec::clear);
        for (index, row) in call.rows.chunks_exact(call.n_in).enumerate() {
            self.apart[usize::from(is_held(index))].extend_from_slice(row);
        }
        pair.fit.add(self.level, &self.apart[0]);
        pair.held.add(self.level, &self.apart[1]);
    }
}

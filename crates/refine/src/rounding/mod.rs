//! Rounding with error feedback: other levels in the same blocks, so that the output's error is smaller.
//!
//! For one matrix, `C = E[x x^T]` are the second moments of what goes into it ([`Gram`]). A change `E` of its weights (n_rows,
//! n_columns) changes the output by a mean square of `tr(E C E^T)`. The encoder's blocks are kept with their scales frozen
//! (`quant::frozen`), so that each weight has a small set of values, and two passes choose among them by
//!
//! ```text
//! H = (1 - shrinkage) C + shrinkage diag(C) + damping mean(diag C) I        (n_columns, n_columns)
//! ```
//!
//! 1. **Feedback** (`feedback`): columns in order of falling diagonal; each is rounded to its nearest level, and the error is carried
//!    into the columns to come by the factor `H = V^T D V` (`factor`).
//! 2. **Descent** (`descent`): sweeps over all columns; each weight takes the level that is best while all others stand still.
//!
//! Rows do not know of each other. Sixteen rows are the lanes of a vector and do the same step at once; the carry between panels of
//! columns is a product of matrices. The order of every sum is fixed and the same for every row, so that bytes depend neither
//! on threads nor on the CPU.
//!
//! Source: GPTQ (Frantar et al., arXiv:2210.17323) in the form of LDLQ (Chee et al., arXiv:2307.13304); the shrinkage, the order, the
//! frozen scales of ggml's types and the descent are our own measurements (`docs/quality.md`).

mod choice;
mod descent;
mod error_of;
mod factor;
mod feedback;
mod lanes;
mod metric;
mod products;
mod tile;

use ndarray::Array2;
use quant::{
    Level,
    frozen::{Points, frozen},
};
use rayon::prelude::*;
use tensor::DType;

use self::{
    factor::Factor,
    lanes::{Nearest, Steps, Table},
    metric::Metric,
    tile::Tile,
};
use crate::{Error, Gram};

pub use choice::{Choice, choose};
pub use error_of::output_error;

/// Columns that are rounded one after the other before their errors are carried on by a product.
pub(crate) const PANEL: usize = 64;
/// Rows that a thread works on at a time: a multiple of the lanes.
pub(crate) const TILE_ROWS: usize = 64;

/// How to round.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RoundingOptions {
    /// How far the moments are drawn towards their diagonal, 0 to 1: what few tokens say of pairs of columns is uncertain.
    pub shrinkage: f32,
    /// What is added to the diagonal, as a share of its mean.
    pub damping: f32,
    /// Sweeps of descent.
    pub sweeps: usize,
    /// Whether errors are carried first. Without it descent starts from the encoder's levels.
    pub feedback: bool,
    /// The instructions to use; they change no bit.
    pub level: Level,
}

impl Default for RoundingOptions {
    /// What was best on two models with 4 or more tokens for each column (`docs/quality.md`).
    fn default() -> RoundingOptions {
        RoundingOptions { shrinkage: 0.3, damping: 0.01, sweeps: 2, feedback: true, level: Level::detect() }
    }
}

/// One metric for all rows of a matrix, or of one expert. It may serve several matrices of the same input (query, key and value) and
/// several types.
///
/// Memory: `H`, and with feedback its factor, each `4 n_columns^2` bytes; while it is made, a panel's `8 PANEL n_columns` beside them.
/// [`refine`](Self::refine) takes `20 n_columns TILE_ROWS` bytes for each thread.
#[derive(Debug)]
pub struct Rounding {
    options: RoundingOptions,
    metric: Metric,
    factor: Option<Factor>,
}

impl Rounding {
    /// Prepares the rounding of matrices whose inputs have these moments. Takes about `n_columns^3 / 3` products with feedback.
    ///
    /// # Errors
    /// Where there are no tokens, all inputs were zero, a sum is not finite or a square is negative; or an option has no meaning.
    pub fn new(gram: &Gram, options: &RoundingOptions) -> Result<Rounding, Error> {
        let metric = Metric::new(gram, options)?;
        let factor = options.feedback.then(|| Factor::new(&metric, options));
        Ok(Rounding { options: *options, metric, factor })
    }

    /// Rounds rows again: `weights` (n_rows, n_columns), `blocks` their encoding as `dtype` on entry and the better one on return.
    /// Scales stay. Levels below a scale of zero stay, and so do rows whose weights or values are not finite.
    ///
    /// # Errors
    /// For a type whose levels cannot be chosen ([`is_refinable`]), and lengths that do not agree.
    pub fn refine(&self, dtype: DType, weights: &[f32], blocks: &mut [u8]) -> Result<(), Error> {
        let n_columns = self.metric.n_columns();
        let row_bytes = row_bytes(dtype, weights, blocks, n_columns)?;
        let codec = frozen(dtype).ok_or(Error::NotRefinable { dtype })?;
        // Tiles are cut by rows alone; each gives the same bytes wherever it is done.
        let tiles =
            weights.par_chunks(TILE_ROWS * n_columns).zip(blocks.par_chunks_mut(TILE_ROWS * row_bytes));
        tiles.for_each(|(weights, blocks)| {
            let mut tile = Tile::read(codec, weights, blocks, n_columns);
            match codec.points {
                Points::Steps { zero, lowest, highest } => {
                    self.round(&Steps::new(zero, lowest, highest), &mut tile);
                }
                Points::Table(table) => self.round(&Table::new(table), &mut tile),
            }
            tile.write(codec, blocks);
        });
        Ok(())
    }

    fn round(&self, nearest: &impl Nearest, tile: &mut Tile) {
        let level = self.options.level;
        if let Some(factor) = &self.factor {
            feedback::round(level, factor, nearest, tile);
        }
        // What a panel's product gives: (PANEL, lanes of the tile).
        let mut products = Array2::zeros((PANEL.min(tile.n_columns()), tile.n_lanes()));
        for _ in 0..self.options.sweeps {
            descent::sweep(level, &self.metric, nearest, tile, &mut products);
        }
    }
}

/// Whether [`Rounding::refine`] knows the type.
pub fn is_refinable(dtype: DType) -> bool {
    frozen(dtype).is_some()
}

/// Bytes of a row, after all lengths are found to agree.
fn row_bytes(dtype: DType, weights: &[f32], blocks: &[u8], n_columns: usize) -> Result<usize, Error> {
    let (block_elems, block_bytes) = (dtype.block_elems() as usize, dtype.block_bytes() as usize);
    let length = |what, found, expected| Err(Error::Length { what, found, expected });
    if n_columns == 0 || !n_columns.is_multiple_of(block_elems) {
        return length(
            "row length in elements",
            n_columns,
            n_columns.next_multiple_of(block_elems).max(block_elems),
        );
    }
    if !weights.len().is_multiple_of(n_columns) {
        return length("weights in elements", weights.len(), weights.len().next_multiple_of(n_columns));
    }
    let row_bytes = n_columns / block_elems * block_bytes;
    let n_bytes = weights.len() / n_columns * row_bytes;
    if blocks.len() != n_bytes {
        return length("blocks in bytes", blocks.len(), n_bytes);
    }
    Ok(row_bytes)
}

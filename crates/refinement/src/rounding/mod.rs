//! Rounding with error feedback: chooses other levels in the same blocks to reduce the output error.
//!
//! For one matrix with the input Hessian `C = E[x x^T]` ([`Gram`]), an error `E` of its weights (n_rows,
//! n_columns) changes the output by a mean square of `tr(E C E^T)`. The encoder's blocks are read with their
//! scales (`gguf_quant::frozen`), so each weight has a small set of possible values. Three passes choose among
//! them, and among scales, by
//!
//! ```text
//! H = (1 - shrinkage) C + shrinkage diag(C) + damping mean(diag C) I        (n_columns, n_columns)
//! ```
//!
//! 1. **Feedback** (`feedback`): columns in the order of falling diagonal. Each is rounded to its nearest
//!    level, and the error is carried
//!    into later columns by the factor `H = V^T D V` (`factor`).
//! 2. **Scales** (`scale_search`): neighboring codes of each group's scale and offset are tried, with new levels
//!    for each. After each sweep,
//!    the half-precision factors of the blocks are fitted (`block_factors`).
//! 3. **Descent** (`descent`): sweeps over all columns. Each weight takes its best level while the others
//!    stay fixed.
//!
//! Types that code eight columns with a codebook use eight columns as the unit (`codebook_rounding`).
//!
//! Rows are independent. Sixteen rows are the lanes of a vector and do the same step at once; corrections
//! between panels of columns are matrix products. The order of every sum is fixed and the same for every row,
//! so bytes depend neither on threads nor on the CPU.
//!
//! Source: GPTQ (Frantar et al., arXiv:2210.17323) in the form of LDLQ (Chee et al., arXiv:2307.13304).
//! Shrinkage, order, scale search in ggml's types and descent are our own (`docs/notes/quality.md`).

mod batched;
mod block_factors;
mod codebook_rounding;
mod codebook_search;
mod descent;
mod factor;
mod feedback;
mod kronecker;
mod lanes;
mod metric;
mod option_choice;
mod output_error;
mod scale_search;
mod tile;

use gguf_quant::{
    Level,
    codebook::{COLUMNS, CodebookCodec, codebook_codec},
    frozen::{FrozenCodec, Points, frozen},
};
use gguf_types::DType;
use ndarray::Array2;
use rayon::prelude::*;

use self::{
    codebook_rounding::CodebookTile,
    codebook_search::Search,
    factor::Factor,
    lanes::{Nearest, Steps, Table},
    metric::Metric,
    tile::Tile,
};
use crate::{Error, Gram};

pub use batched::BatchedRounding;
pub use kronecker::{KroneckerRounding, divergence};
pub use option_choice::{Choice, choose};
pub(crate) use option_choice::{SIDE_BY_SIDE, choose_by};
pub use output_error::output_error;

/// Number of columns that are rounded in order before a product carries their errors on.
pub(crate) const PANEL: usize = 64;
/// Rows per thread at a time; a multiple of the lanes.
pub(crate) const TILE_ROWS: usize = 64;

/// Rounding options.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RoundingOptions {
    /// Shrinkage of the Hessian towards its diagonal, 0 to 1. With few tokens, off-diagonal entries are
    /// uncertain.
    pub shrinkage: f32,
    /// Addition to the diagonal, as a share of its mean.
    pub damping: f32,
    /// Shrinkage of the output gradient statistics towards their diagonal; `None` for rounding with only
    /// input statistics ([`KroneckerRounding`]).
    pub output_shrinkage: Option<f32>,
    /// Sweeps that search scales and levels, before those that only search levels. Codebook types do plain
    /// sweeps instead.
    pub scale_sweeps: usize,
    /// Fit the half-precision factors of each block after each of these sweeps.
    pub fit: bool,
    /// Sweeps of coordinate descent.
    pub sweeps: usize,
    /// Error feedback first. Without it, descent starts from the encoder's levels.
    pub feedback: bool,
    /// CPU level; it changes no bit.
    pub level: Level,
}

impl RoundingOptions {
    /// Default shrinkage of output gradient statistics.
    pub const OUTPUT_SHRINKAGE: f32 = 0.7;
}

impl Default for RoundingOptions {
    /// The best values on two models with at least 4 tokens per column (`docs/notes/quality.md`).
    fn default() -> RoundingOptions {
        RoundingOptions {
            shrinkage: 0.3,
            damping: 0.01,
            output_shrinkage: None,
            scale_sweeps: 1,
            fit: true,
            sweeps: 1,
            feedback: true,
            level: Level::detect(),
        }
    }
}

/// A metric for all rows of a matrix or expert. It may serve several matrices with the same input (query, key
/// and value) and several types.
///
/// Memory: `H`, and with feedback its factor, `4 n_columns^2` bytes each, plus `8 PANEL n_columns` while it
/// is computed. [`refine`](Self::refine) takes `20 n_columns TILE_ROWS` bytes per thread, and with the fit
/// `20 TILE_ROWS` per element of a block.
#[derive(Debug)]
pub struct Rounding {
    options: RoundingOptions,
    metric: Metric,
    /// Columns that the factor's order keeps together.
    unit: usize,
    factor: Option<Factor>,
}

impl Rounding {
    /// Prepares the rounding of matrices with this input Hessian, for types with independent columns. With
    /// feedback it takes about `n_columns^3 / 3` multiply-adds.
    ///
    /// # Errors
    /// For a Hessian without tokens, with all inputs zero, not finite or with a negative square; for options
    /// out of range.
    pub fn new(gram: &Gram, options: &RoundingOptions) -> Result<Rounding, Error> {
        Rounding::in_units(gram, options, 1)
    }

    /// Like [`new`](Self::new), for one type: for types that code eight columns together, the factor keeps
    /// them together.
    pub fn for_type(gram: &Gram, options: &RoundingOptions, dtype: DType) -> Result<Rounding, Error> {
        Rounding::in_units(gram, options, Rounding::unit_of(gram.n_columns(), dtype))
    }

    /// Columns that the factor for a type keeps together.
    pub(crate) fn unit_of(n_columns: usize, dtype: DType) -> usize {
        let has_codebook = codebook_codec(dtype).is_some() && n_columns.is_multiple_of(COLUMNS);
        if has_codebook { COLUMNS } else { 1 }
    }

    /// Columns that the factor keeps together.
    pub(crate) fn unit(&self) -> usize {
        self.unit
    }

    /// Memory, in bytes.
    pub(crate) fn n_bytes(&self) -> u64 {
        let n = self.metric.n_columns() as u64;
        4 * n * (n + if self.factor.is_some() { n + PANEL as u64 } else { 0 })
    }

    fn in_units(gram: &Gram, options: &RoundingOptions, unit: usize) -> Result<Rounding, Error> {
        let metric = Metric::new(gram, options)?;
        let factor = options.feedback.then(|| Factor::new(&metric, metric.order(unit), options));
        Ok(Rounding { options: *options, metric, unit, factor })
    }

    /// Rounds rows again: `weights` (n_rows, n_columns); `blocks`, their encoding as `dtype` on entry and the
    /// better one on return. Without scale sweeps, scales stay. Zero scales and their levels stay, and so do
    /// rows with non-finite weights or values.
    ///
    /// # Errors
    /// For an unsupported type ([`is_refinable`]) and lengths that do not agree.
    pub fn refine(&self, dtype: DType, weights: &[f32], blocks: &mut [u8]) -> Result<(), Error> {
        self.refine_from(self.options.feedback, dtype, weights, blocks)
    }

    /// [`refine`](Self::refine), with or without feedback at first.
    pub(crate) fn refine_from(
        &self,
        feedback: bool,
        dtype: DType,
        weights: &[f32],
        blocks: &mut [u8],
    ) -> Result<(), Error> {
        let n_columns = self.metric.n_columns();
        let row_bytes = row_bytes(dtype, weights, blocks, n_columns)?;
        if let Some(codec) = codebook_codec(dtype) {
            self.refine_codebook(feedback, codec, weights, blocks, row_bytes);
            return Ok(());
        }
        let codec = frozen(dtype).ok_or(Error::NotRefinable { dtype })?;
        // Tiles are cut by rows; each gives the same bytes on any thread.
        let tile_rows = tile_rows(weights.len() / n_columns);
        let tiles =
            weights.par_chunks(tile_rows * n_columns).zip(blocks.par_chunks_mut(tile_rows * row_bytes));
        tiles.for_each(|(weights, blocks)| {
            let mut tile = Tile::read(codec, weights, blocks, n_columns);
            match codec.points {
                Points::Steps { zero, lowest, highest } => {
                    self.round(feedback, codec, &Steps::new(zero, lowest, highest), &mut tile, blocks);
                }
                Points::Table(table) => self.round(feedback, codec, &Table::new(table), &mut tile, blocks),
            }
            tile.write(codec, blocks);
        });
        Ok(())
    }

    /// Like [`refine`](Self::refine), for a rounding that may have been prepared for other types.
    fn refine_codebook(
        &self,
        feedback: bool,
        codec: &CodebookCodec,
        weights: &[f32],
        blocks: &mut [u8],
        row_bytes: usize,
    ) {
        let (n_columns, level) = (self.metric.n_columns(), self.options.level);
        let other = (feedback && self.unit != COLUMNS)
            .then(|| Factor::new(&self.metric, self.metric.order(COLUMNS), &self.options));
        let factor = other.as_ref().or(self.factor.as_ref()).filter(|_| feedback);
        let (search, inverses) = (Search::new(codec), codebook_rounding::inverses(&self.metric));
        let tile_rows = tile_rows(weights.len() / n_columns);
        let tiles =
            weights.par_chunks(tile_rows * n_columns).zip(blocks.par_chunks_mut(tile_rows * row_bytes));
        tiles.for_each(|(weights, blocks)| {
            let mut tile = CodebookTile::read(codec, weights, blocks, n_columns);
            if let Some(factor) = factor {
                codebook_rounding::feedback(level, factor, &search, &mut tile);
            }
            for _ in 0..self.options.scale_sweeps + self.options.sweeps {
                codebook_rounding::sweep(level, &self.metric, &inverses, &search, &mut tile);
            }
            tile.write(codec, blocks);
        });
    }

    fn round(
        &self,
        feedback: bool,
        codec: &FrozenCodec,
        nearest: &impl Nearest,
        tile: &mut Tile,
        blocks: &mut [u8],
    ) {
        let level = self.options.level;
        if let Some(factor) = self.factor.as_ref().filter(|_| feedback) {
            feedback::round(level, factor, nearest, tile);
        }
        // Product of a panel: (PANEL, lanes of the tile).
        let mut products = Array2::zeros((PANEL.min(tile.n_columns()), tile.n_lanes()));
        for _ in 0..self.options.scale_sweeps {
            scale_search::sweep(level, codec, &self.metric, nearest, tile, blocks, &mut products);
            if self.options.fit {
                block_factors::sweep(level, codec, &self.metric, tile, blocks);
            }
        }
        for _ in 0..self.options.sweeps {
            descent::sweep(level, &self.metric, nearest, tile, &mut products);
        }
    }
}

/// Rows per tile, small enough that all threads get some of `n_rows`. Rows do not depend on their tile.
fn tile_rows(n_rows: usize) -> usize {
    n_rows
        .div_ceil(rayon::current_num_threads())
        .next_multiple_of(lanes::LANES)
        .clamp(lanes::LANES, TILE_ROWS)
}

/// True if [`Rounding::refine`] supports the type.
pub fn is_refinable(dtype: DType) -> bool {
    frozen(dtype).is_some() || codebook_codec(dtype).is_some()
}

/// Bytes of a row, after checking that all lengths agree.
fn row_bytes(dtype: DType, weights: &[f32], blocks: &[u8], n_columns: usize) -> Result<usize, Error> {
    let (block_elems, block_bytes) = (dtype.block_elems() as usize, dtype.block_bytes() as usize);
    let length = |quantity, found, expected| Err(Error::Length { quantity, found, expected });
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

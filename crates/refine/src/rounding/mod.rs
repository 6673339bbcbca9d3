//! Rounding with error feedback: other levels in the same blocks, so that the output's error is smaller.
//!
//! For one matrix, `C = E[x x^T]` are the second moments of what goes into it ([`Gram`]). A change `E` of its weights (n_rows,
//! n_columns) changes the output by a mean square of `tr(E C E^T)`. The encoder's blocks are read with their scales
//! (`quant::frozen`), so that each weight has a small set of values, and three passes choose among them and among their scales by
//!
//! ```text
//! H = (1 - shrinkage) C + shrinkage diag(C) + damping mean(diag C) I        (n_columns, n_columns)
//! ```
//!
//! 1. **Feedback** (`feedback`): columns in order of falling diagonal; each is rounded to its nearest level, and the error is carried
//!    into the columns to come by the factor `H = V^T D V` (`factor`).
//! 2. **Scales** (`rescale`): neighbouring codes of the scale and the offset of each group are tried, with levels chosen anew under
//!    each. Behind each such sweep the numbers of half precision that a block's codes are multiplied by are fitted (`fit`).
//! 3. **Descent** (`descent`): sweeps over all columns; each weight takes the level that is best while all others stand still.
//!
//! Types whose columns come by eights from a codebook go the same way with eight columns as the unit (`eights`).
//!
//! Rows do not know of each other. Sixteen rows are the lanes of a vector and do the same step at once; the carry between panels of
//! columns is a product of matrices. The order of every sum is fixed and the same for every row, so that bytes depend neither
//! on threads nor on the CPU.
//!
//! Source: GPTQ (Frantar et al., arXiv:2210.17323) in the form of LDLQ (Chee et al., arXiv:2307.13304); the shrinkage, the order, the
//! search of scales in ggml's types and the descent are our own measurements (`docs/notes/quality.md`).

mod both;
mod choice;
mod descent;
mod eights;
mod error_of;
mod factor;
mod feedback;
mod fit;
mod lanes;
mod metric;
mod rescale;
mod search;
mod tile;

use ndarray::Array2;
use quant::{
    Level,
    eights::{COLUMNS, EightsCodec, eights},
    frozen::{FrozenCodec, Points, frozen},
};
use rayon::prelude::*;
use tensor::DType;

use self::{
    eights::EightsTile,
    factor::Factor,
    lanes::{Nearest, Steps, Table},
    metric::Metric,
    search::Search,
    tile::Tile,
};
use crate::{Error, Gram};

pub use both::{BothSides, divergence};
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
    /// How far moments of gradients at what comes out are drawn towards their diagonal; none where rows are rounded by one side
    /// alone ([`BothSides`]).
    pub output_shrinkage: Option<f32>,
    /// Sweeps that search scales and levels, before those that search levels alone. Types of codebooks have plain sweeps for these.
    pub scale_sweeps: usize,
    /// Whether each of these is followed by a fit of the numbers of half precision in each block.
    pub fit: bool,
    /// Sweeps of descent.
    pub sweeps: usize,
    /// Whether errors are carried first. Without it descent starts from the encoder's levels.
    pub feedback: bool,
    /// The instructions to use; they change no bit.
    pub level: Level,
}

impl RoundingOptions {
    /// Of moments of gradients where nothing else is said.
    pub const OUTPUT_SHRINKAGE: f32 = 0.2;
}

impl Default for RoundingOptions {
    /// What was best on two models with 4 or more tokens for each column (`docs/notes/quality.md`).
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

/// One metric for all rows of a matrix, or of one expert. It may serve several matrices of the same input (query, key and value) and
/// several types.
///
/// Memory: `H`, and with feedback its factor, each `4 n_columns^2` bytes; while it is made, a panel's `8 PANEL n_columns` beside them.
/// [`refine`](Self::refine) takes `20 n_columns TILE_ROWS` bytes for each thread, and where blocks are fitted
/// `20 TILE_ROWS` for each element of a block.
#[derive(Debug)]
pub struct Rounding {
    options: RoundingOptions,
    metric: Metric,
    /// Columns that the factor's order keeps together.
    unit: usize,
    factor: Option<Factor>,
}

impl Rounding {
    /// Prepares the rounding of matrices whose inputs have these moments, for types whose columns stand alone. Takes about
    /// `n_columns^3 / 3` products with feedback.
    ///
    /// # Errors
    /// Where there are no tokens, all inputs were zero, a sum is not finite or a square is negative; or an option has no meaning.
    pub fn new(gram: &Gram, options: &RoundingOptions) -> Result<Rounding, Error> {
        Rounding::in_units(gram, options, 1)
    }

    /// The same for one type: where columns come by eights, the factor keeps eights together.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn for_type(gram: &Gram, options: &RoundingOptions, dtype: DType) -> Result<Rounding, Error> {
        let of_eights = eights(dtype).is_some() && gram.n_columns().is_multiple_of(COLUMNS);
        Rounding::in_units(gram, options, if of_eights { COLUMNS } else { 1 })
    }

    fn in_units(gram: &Gram, options: &RoundingOptions, unit: usize) -> Result<Rounding, Error> {
        let metric = Metric::new(gram, options)?;
        let factor = options.feedback.then(|| Factor::new(&metric, metric.order(unit), options));
        Ok(Rounding { options: *options, metric, unit, factor })
    }

    /// Rounds rows again: `weights` (n_rows, n_columns), `blocks` their encoding as `dtype` on entry and the better one on return.
    /// Without sweeps over scales these stay. Scales of zero and levels below them stay, and so do rows whose weights or values are not
    /// finite.
    ///
    /// # Errors
    /// For a type whose levels cannot be chosen ([`is_refinable`]), and lengths that do not agree.
    pub fn refine(&self, dtype: DType, weights: &[f32], blocks: &mut [u8]) -> Result<(), Error> {
        let n_columns = self.metric.n_columns();
        let row_bytes = row_bytes(dtype, weights, blocks, n_columns)?;
        if let Some(codec) = eights(dtype) {
            self.refine_eights(codec, weights, blocks, row_bytes);
            return Ok(());
        }
        let codec = frozen(dtype).ok_or(Error::NotRefinable { dtype })?;
        // Tiles are cut by rows alone; each gives the same bytes wherever it is done.
        let tiles =
            weights.par_chunks(TILE_ROWS * n_columns).zip(blocks.par_chunks_mut(TILE_ROWS * row_bytes));
        tiles.for_each(|(weights, blocks)| {
            let mut tile = Tile::read(codec, weights, blocks, n_columns);
            match codec.points {
                Points::Steps { zero, lowest, highest } => {
                    self.round(codec, &Steps::new(zero, lowest, highest), &mut tile, blocks);
                }
                Points::Table(table) => self.round(codec, &Table::new(table), &mut tile, blocks),
            }
            tile.write(codec, blocks);
        });
        Ok(())
    }

    /// As [`refine`](Self::refine), of a rounding that may have been made for other types.
    fn refine_eights(&self, codec: &EightsCodec, weights: &[f32], blocks: &mut [u8], row_bytes: usize) {
        let (n_columns, level) = (self.metric.n_columns(), self.options.level);
        let other = (self.options.feedback && self.unit != COLUMNS)
            .then(|| Factor::new(&self.metric, self.metric.order(COLUMNS), &self.options));
        let factor = other.as_ref().or(self.factor.as_ref());
        let (search, inverses) = (Search::new(codec), eights::inverses(&self.metric));
        let tiles =
            weights.par_chunks(TILE_ROWS * n_columns).zip(blocks.par_chunks_mut(TILE_ROWS * row_bytes));
        tiles.for_each(|(weights, blocks)| {
            let mut tile = EightsTile::read(codec, weights, blocks, n_columns);
            if let Some(factor) = factor {
                eights::feedback(level, factor, &search, &mut tile);
            }
            for _ in 0..self.options.scale_sweeps + self.options.sweeps {
                eights::sweep(level, &self.metric, &inverses, &search, &mut tile);
            }
            tile.write(codec, blocks);
        });
    }

    fn round(&self, codec: &FrozenCodec, nearest: &impl Nearest, tile: &mut Tile, blocks: &mut [u8]) {
        let level = self.options.level;
        if let Some(factor) = &self.factor {
            feedback::round(level, factor, nearest, tile);
        }
        // What a panel's product gives: (PANEL, lanes of the tile).
        let mut products = Array2::zeros((PANEL.min(tile.n_columns()), tile.n_lanes()));
        for _ in 0..self.options.scale_sweeps {
            rescale::sweep(level, codec, &self.metric, nearest, tile, blocks, &mut products);
            if self.options.fit {
                fit::sweep(level, codec, &self.metric, tile, blocks);
            }
        }
        for _ in 0..self.options.sweeps {
            descent::sweep(level, &self.metric, nearest, tile, &mut products);
        }
    }
}

/// Whether [`Rounding::refine`] knows the type.
pub fn is_refinable(dtype: DType) -> bool {
    frozen(dtype).is_some() || eights(dtype).is_some()
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

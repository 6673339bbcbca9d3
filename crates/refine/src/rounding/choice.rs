//! Which options are best on tokens that were not used.

use tensor::DType;

use super::{Rounding, RoundingOptions, output_error};
use crate::{Error, Gram};

/// Options that beat the encoder's own rounding.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Choice {
    /// The options.
    pub options: RoundingOptions,
    /// `tr(E G E^T) / n_tokens` of the sample on the tokens held out, as the encoder left it.
    pub stock_error: f64,
    /// The same with these options.
    pub error: f64,
}

/// Tries each of the candidates on a sample of rows: moments `fit` decide levels, moments `held` of other tokens measure them. None
/// where the encoder's own levels are better than all. `weights` (n_rows, n_columns) and `stock` are some rows of a matrix and
/// their encoding. The first of equals is taken.
///
/// # Errors
/// As [`Rounding::new`], [`Rounding::refine`] and [`output_error`].
pub fn choose(
    fit: &Gram,
    held: &Gram,
    dtype: DType,
    weights: &[f32],
    stock: &[u8],
    candidates: &[RoundingOptions],
) -> Result<Option<Choice>, Error> {
    let n_columns = fit.n_columns();
    let stock_error = output_error(held, dtype, weights, stock, n_columns)?;
    let mut best: Option<Choice> = None;
    for options in candidates {
        let mut blocks = stock.to_vec();
        Rounding::for_type(fit, options, dtype)?.refine(dtype, weights, &mut blocks)?;
        let error = output_error(held, dtype, weights, &blocks, n_columns)?;
        if error < best.map_or(stock_error, |best| best.error) {
            best = Some(Choice { options: *options, stock_error, error });
        }
    }
    Ok(best)
}

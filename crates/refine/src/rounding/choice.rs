//! Which options are best on tokens that were not used.

use rayon::prelude::*;
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

/// Errors on held-out tokens that are within this factor of the least are taken for equal. Held-out tokens are of the texts that were
/// learned from; text of another kind is further away, and wants more shrinkage than they do (`docs/notes/quality.md`).
const NEAR: f64 = 1.05;

/// Columns whose factors may be in memory for all candidates at once: 34 MB for each at most.
const SIDE_BY_SIDE: usize = 2048;

/// Tries each of the candidates on a sample of rows: moments `fit` decide levels, moments `held` of other tokens measure them. None
/// where the encoder's own levels are better than all. `weights` (n_rows, n_columns) and `stock` are some rows of a matrix and
/// their encoding. Of those about as good as the best the one with the most shrinkage is taken, and the first of equals.
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
    let tried = |options: &RoundingOptions| -> Result<Choice, Error> {
        let mut blocks = stock.to_vec();
        Rounding::for_type(fit, options, dtype)?.refine(dtype, weights, &mut blocks)?;
        let error = output_error(held, dtype, weights, &blocks, n_columns)?;
        Ok(Choice { options: *options, stock_error, error })
    };
    // The few rows of a sample are work for one thread. Factors of wide ones are large, and keep all threads busy by themselves.
    let at_a_time = if n_columns <= SIDE_BY_SIDE { 1 } else { candidates.len() };
    let choices: Result<Vec<Choice>, Error> =
        candidates.par_iter().with_min_len(at_a_time).map(tried).collect();
    let mut choices = choices?;
    let least = choices.iter().fold(f64::INFINITY, |least, choice| least.min(choice.error));
    choices.retain(|choice| choice.error < stock_error && choice.error <= NEAR * least);
    let shrinkage = |choice: &Choice| choice.options.shrinkage;
    Ok(choices
        .into_iter()
        .reduce(|best, other| if shrinkage(&other) > shrinkage(&best) { other } else { best }))
}

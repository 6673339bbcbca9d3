//! Choice of rounding options on held-out tokens.

use std::sync::Arc;

use gguf_types::DType;
use rayon::prelude::*;

use super::{Rounding, RoundingOptions, output_error};
use crate::{Error, Gram};

/// Options that beat the encoder's own rounding.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Choice {
    /// Options that were chosen.
    pub options: RoundingOptions,
    /// `tr(E G E^T) / n_tokens` of the sample on held-out tokens, for the encoder's blocks.
    pub stock_error: f64,
    /// This error after rounding with these options.
    pub error: f64,
}

/// Held-out errors within this factor of the best count as equal. Held-out tokens come from the calibration
/// texts; other text differs more and needs more shrinkage (`docs/notes/quality.md`).
const NEAR: f64 = 1.05;

/// Columns up to which all candidates' factors may be in memory at once: at most 34 MB each.
pub(crate) const SIDE_BY_SIDE: usize = 2048;

/// Tries each candidate on a sample of rows: Hessian `fit` decides levels, Hessian `held` of other tokens
/// measures them. `None` if the encoder's levels are best. `weights` (n_rows, n_columns) and `stock` are rows
/// of a matrix and their encoding. Among candidates about as good as the best, the one with the most
/// shrinkage wins, and the first of equals.
pub fn choose(
    fit: &Gram,
    held: &Gram,
    dtype: DType,
    weights: &[f32],
    stock: &[u8],
    candidates: &[RoundingOptions],
) -> Result<Option<Choice>, Error> {
    let made = |options: &RoundingOptions| Rounding::for_type(fit, options, dtype).map(Arc::new);
    choose_by(&made, held, dtype, weights, stock, candidates)
}

/// [`choose`], reusing known roundings.
pub(crate) fn choose_by(
    rounding: &(dyn Fn(&RoundingOptions) -> Result<Arc<Rounding>, Error> + Sync),
    held: &Gram,
    dtype: DType,
    weights: &[f32],
    stock: &[u8],
    candidates: &[RoundingOptions],
) -> Result<Option<Choice>, Error> {
    let n_columns = held.n_columns();
    let stock_error = output_error(held, dtype, weights, stock, n_columns)?;
    let tried = |options: &RoundingOptions| -> Result<Choice, Error> {
        let mut blocks = stock.to_vec();
        rounding(options)?.refine(dtype, weights, &mut blocks)?;
        let error = output_error(held, dtype, weights, &blocks, n_columns)?;
        Ok(Choice { options: *options, stock_error, error })
    };
    // A small sample is work for one thread. Wide factors are large and use all threads.
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

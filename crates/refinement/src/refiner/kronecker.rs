//! Rounding of matrices with Kronecker-factored statistics, done when their first row is encoded.

use std::sync::Arc;

use super::{Refiner, StockRows, shared::OfInput};
use crate::{
    BatchedRounding, Error, Gram, KroneckerRounding, Rounding, RoundingOptions, moments::MomentsCache,
};

/// Memory limit for rounding one matrix, in bytes. Larger matrices only use input statistics.
const MOST_BYTES: u64 = 4 << 30;

/// Memory for rounding a matrix with both statistics: two metrics with their factors and statistics, and
/// shares of rows; weights, points and errors, twice.
fn n_bytes(n_rows: u64, n_columns: u64) -> u64 {
    16 * n_columns.pow(2) + 24 * n_rows.pow(2) + 24 * n_rows * n_columns
}

/// Input and output statistics of a matrix over training and held-out tokens.
pub(super) struct Sides {
    pub fit: Gram,
    pub held: Gram,
    pub fit_outputs: Gram,
    pub held_outputs: Gram,
}

pub(super) enum Rounded {
    /// All blocks of the matrix, and the options.
    Both(Vec<u8>, RoundingOptions),
    /// Not better than the codec's blocks; rows are rounded with input statistics.
    Inputs(Arc<Rounding>),
}

impl Refiner {
    /// Also uses output gradient statistics.
    #[must_use]
    pub fn with_outputs(mut self, outputs: MomentsCache) -> Refiner {
        self.outputs = Some(outputs);
        self
    }

    /// Output statistics of a matrix, if it has any and is eligible.
    pub(super) fn outputs_of(
        &self,
        rows: &StockRows<'_>,
        n_rows: u64,
        n_columns: usize,
    ) -> Result<Option<(Gram, Gram)>, Error> {
        let Some(outputs) = &self.outputs else { return Ok(None) };
        if n_bytes(n_rows, n_columns as u64) > MOST_BYTES {
            return Ok(None);
        }
        let found = outputs.gram(rows.tensor, None)?;
        Ok(found.filter(|(fit, held)| {
            let has_all = |gram: &Gram| gram.n_columns() as u64 == n_rows && gram.n_tokens() > 0;
            // Gradients that are all zero carry no information.
            has_all(fit)
                && held.n_columns() == fit.n_columns()
                && (0..fit.n_columns()).any(|row| fit.sums()[row * (fit.n_columns() + 1)] > 0.0)
        }))
    }

    /// Rounds a matrix with both statistics.
    pub(super) fn round_both(
        &self,
        rows: &StockRows<'_>,
        options: &RoundingOptions,
        sides: Sides,
        input: &mut OfInput,
    ) -> Result<Rounded, Error> {
        let Sides { fit, held, fit_outputs, held_outputs } = sides;
        let (n_columns, n_rows, dtype) = (fit.n_columns(), fit_outputs.n_columns(), rows.dtype);
        let both = RoundingOptions { output_shrinkage: Some(RoundingOptions::OUTPUT_SHRINKAGE), ..*options };
        let mut outputs = fit_outputs;
        outputs.add(&held_outputs);
        let inputs = input.over_all(fit, &held, options, dtype)?;
        let all_rows: Vec<u64> = (0..n_rows as u64).collect();
        let values = self.decoded(rows.tensor, &all_rows, n_columns, rows.level)?;
        let encode = |values: &[f32]| self.encode(values, n_columns, rows);
        let batched = BatchedRounding::new(&outputs, &both)?;
        let (mut blocks, cost) = batched.round(&inputs, dtype, &values, &encode)?;
        // Feedback between strongly dependent rows can grow without limit.
        if cost > batched.cost(&inputs, dtype, &values, &encode(&values)?)? {
            return Ok(Rounded::Inputs(inputs));
        }
        if KroneckerRounding::supports(dtype) {
            let sweeps = RoundingOptions { feedback: false, ..both };
            KroneckerRounding::with_inputs(inputs, &outputs, &sweeps)?.refine(dtype, &values, &mut blocks)?;
        }
        Ok(Rounded::Both(blocks, both))
    }
}

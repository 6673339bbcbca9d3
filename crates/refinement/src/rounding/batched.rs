//! Rounding with a Kronecker-factored Hessian, a batch of rows at a time, for every type.
//!
//! With the output gradient statistics `G = U^T D U` (n_rows, n_rows) (`factor`), an error `E` of the weights
//! costs `sum_r d_r |e_r + sum_{i<r} U_ri e_i|^2`, with the norm of the input Hessian. So a row whose
//! predecessors are done is rounded like a single row of weights `w_r + sum_{i<r} U_ri e_i`, scales included
//! ([`Rounding`]). Rows of a batch are evenly spread over the matrix, so that they interact least, and are
//! rounded as if they did not interact. A second pass, without feedback over columns, rounds each batch for
//! its weights plus `sum_{i != r} G_ri / G_rr e_i`. If rows of a batch interact too strongly, this pass
//! raises the cost, and its result is dropped. [`KroneckerRounding`](super::KroneckerRounding) then corrects
//! levels with all interactions, for types with independent columns.

use gguf_products::matmul;
use gguf_quant::Level;
use gguf_types::DType;
use ndarray::{Array2, ArrayView2, Axis, s};
use rayon::prelude::*;

use super::{Rounding, RoundingOptions, factor::Factor, lanes::LANES, metric::Metric, row_bytes};
use crate::{Error, Gram};

/// Batches per matrix. More batches neglect fewer interactions and give threads less work at a time.
const BATCHES: usize = 12;

/// Rows of a product that a thread computes at once.
const PART_ROWS: usize = 16;

/// Encodes rows (n, n_columns) with the codec.
pub type Encode<'a> = dyn Fn(&[f32]) -> Result<Vec<u8>, Error> + Sync + 'a;

/// Output metric of a matrix, factored for batches of rows.
#[derive(Debug)]
pub struct BatchedRounding {
    level: Level,
    factor: Factor,
    /// (n_rows, n_rows), rows in the factor's order: `G_ri / G_rr`, and 0 on the diagonal.
    shares: Array2<f32>,
    /// `G_rr` of the rows in the factor's order.
    diagonal: Vec<f32>,
    batch: usize,
}

impl BatchedRounding {
    /// Prepares the rounding of a matrix with these output gradient statistics. Only the output shrinkage, the
    /// damping and the level of the options count.
    pub fn new(outputs: &Gram, options: &RoundingOptions) -> Result<BatchedRounding, Error> {
        let options = RoundingOptions {
            shrinkage: options.output_shrinkage.unwrap_or(RoundingOptions::OUTPUT_SHRINKAGE),
            ..*options
        };
        let metric = Metric::new(outputs, &options)?;
        let n_rows = outputs.n_columns();
        let batch = n_rows.div_ceil(BATCHES).next_multiple_of(LANES);
        let n_batches = n_rows.div_ceil(batch);
        let order: Vec<usize> = (0..n_batches).flat_map(|first| (first..n_rows).step_by(n_batches)).collect();
        let share = |(r, i): (usize, usize)| match (order[r], order[i]) {
            (row, other) if row == other => 0.0,
            (row, other) => metric.h()[[row, other]] * metric.inverse_diagonal()[row],
        };
        let shares = Array2::from_shape_fn((n_rows, n_rows), share);
        let diagonal = order.iter().map(|row| metric.h()[[*row, *row]]).collect();
        let factor = Factor::new(&metric, order, &options);
        Ok(BatchedRounding { level: options.level, factor, shares, diagonal, batch })
    }

    /// Cost `tr(G E H E^T)` of a matrix's blocks for its `weights`, with the metric of `inputs`.
    ///
    /// # Errors
    /// Blocks that do not decode.
    pub fn cost(
        &self,
        inputs: &Rounding,
        dtype: DType,
        weights: &[f32],
        blocks: &[u8],
    ) -> Result<f64, Error> {
        let n_columns = inputs.metric.n_columns();
        let mut decoded = vec![0.0; weights.len()];
        gguf_quant::decode(dtype, self.level, blocks, &mut decoded)?;
        let mut errors = Array2::<f32>::zeros((self.factor.order().len(), n_columns));
        for (row, errors) in self.factor.order().iter().zip(errors.rows_mut()) {
            let of_row = *row * n_columns..(*row + 1) * n_columns;
            let pairs = weights[of_row.clone()].iter().zip(&decoded[of_row]);
            errors.into_iter().zip(pairs).for_each(|(error, (weight, found))| *error = weight - found);
        }
        Ok(self.cost_of(inputs, &errors))
    }

    /// Cost of errors (n_rows, n_columns) of rows in the factor's order.
    fn cost_of(&self, inputs: &Rounding, errors: &Array2<f32>) -> f64 {
        let n_rows = errors.nrows();
        let cost = |first: usize| {
            let part = s![first..n_rows.min(first + PART_ROWS), ..];
            let own = errors.slice(part);
            // D^-1 G E, and E H.
            let (mut others, mut weighted) = (own.to_owned(), Array2::zeros(own.raw_dim()));
            matmul(self.level, true, 1.0, self.shares.slice(part), errors.view(), others.view_mut());
            matmul(self.level, false, 1.0, own, inputs.metric.h().view(), weighted.view_mut());
            let rows = others.rows().into_iter().zip(weighted.rows()).zip(&self.diagonal[first..]);
            rows.map(|((others, weighted), diagonal)| {
                let products = others.iter().zip(weighted).map(|(a, b)| f64::from(*a) * f64::from(*b));
                f64::from(*diagonal) * products.sum::<f64>()
            })
            .sum::<f64>()
        };
        let firsts: Vec<usize> = (0..n_rows).step_by(PART_ROWS).collect();
        // Summed in row order, for any number of threads.
        firsts.into_par_iter().map(cost).collect::<Vec<f64>>().into_iter().sum()
    }

    /// Encodes and rounds a matrix: `weights` (n_rows, n_columns), each batch with `encode` and then with
    /// `inputs`. Returns its blocks and their [`cost`](Self::cost), without rows that are not finite.
    ///
    /// # Errors
    /// Those of [`Rounding::refine`], and errors of `encode`.
    pub fn round(
        &self,
        inputs: &Rounding,
        dtype: DType,
        weights: &[f32],
        encode: &Encode<'_>,
    ) -> Result<(Vec<u8>, f64), Error> {
        let (order, n_rows) = (self.factor.order(), self.factor.order().len());
        let n_columns = inputs.metric.n_columns();
        if weights.len() != n_rows * n_columns {
            let (found, expected) = (weights.len() / n_columns.max(1), n_rows);
            return Err(Error::Length { quantity: "rows of a matrix", found, expected });
        }
        let weights = ArrayView2::from_shape((n_rows, n_columns), weights).expect("the length was checked");
        let row_bytes = n_columns / dtype.block_elems() as usize * dtype.block_bytes() as usize;
        let mut blocks = vec![0; n_rows * row_bytes];
        // Errors of rows in the factor's order: (n_rows, n_columns).
        let mut errors = Array2::<f32>::zeros((n_rows, n_columns));
        let mut found = vec![0.0; self.batch.min(n_rows) * n_columns];
        let mut best: Option<(Vec<u8>, f64)> = None;
        for is_first in [true, false] {
            for top in (0..n_rows).step_by(self.batch) {
                let rows = &order[top..n_rows.min(top + self.batch)];
                // Earlier rows at first, then all others: w + U E or w + (D^-1 G - I) E, (rows, n_columns).
                let mut shifted = weights.select(Axis(0), rows);
                let (shares, others) = if is_first { (self.factor.v(), top) } else { (&self.shares, n_rows) };
                let shares = shares.slice(s![top..top + rows.len(), ..others]);
                let parts = shifted.axis_chunks_iter_mut(Axis(0), PART_ROWS).into_par_iter();
                parts.zip(shares.axis_chunks_iter(Axis(0), PART_ROWS).into_par_iter()).for_each(
                    |(out, shares)| {
                        matmul(self.level, true, 1.0, shares, errors.slice(s![..others, ..]), out);
                    },
                );
                let values = shifted.as_slice().expect("whole rows");
                let mut rounded = if is_first {
                    encode(values)?
                } else {
                    let of_row = |row: &usize| &blocks[row * row_bytes..(row + 1) * row_bytes];
                    rows.iter().flat_map(of_row).copied().collect()
                };
                self::row_bytes(dtype, values, &rounded, n_columns)?;
                inputs.refine_from(is_first && inputs.options.feedback, dtype, values, &mut rounded)?;
                let found = &mut found[..values.len()];
                gguf_quant::decode(dtype, self.level, &rounded, found)?;
                for (at, row) in rows.iter().enumerate() {
                    let errors = errors.row_mut(top + at).into_slice().expect("whole rows");
                    let found = &found[at * n_columns..(at + 1) * n_columns];
                    for ((error, value), found) in errors.iter_mut().zip(weights.row(*row)).zip(found) {
                        *error = value - found;
                    }
                    // Non-finite values must not spread to other rows.
                    if errors.iter().any(|error| !error.is_finite()) {
                        errors.fill(0.0);
                    }
                    blocks[row * row_bytes..(row + 1) * row_bytes]
                        .copy_from_slice(&rounded[at * row_bytes..(at + 1) * row_bytes]);
                }
            }
            let cost = self.cost_of(inputs, &errors);
            if best.as_ref().is_none_or(|(_, least)| cost < *least) {
                best = Some((blocks.clone(), cost));
            }
        }
        Ok(best.expect("two passes"))
    }
}

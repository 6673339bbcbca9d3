//! Rounding of whole matrices with Kronecker-factored statistics, done when the first of their rows comes.

use super::{Refiner, StockRows};
use crate::{Error, Gram, KroneckerRounding, Rounding, RoundingOptions, divergence, moments::MomentsCache};

/// Rows that decide between input statistics alone and both: enough for correlations between rows to show.
const SAMPLE_ROWS: usize = 256;

/// Memory limit for rounding one matrix, in bytes. Larger matrices use input statistics alone.
const MOST_BYTES: u64 = 4 << 30;

/// Input and output statistics of a matrix over training and held-out tokens.
pub(super) struct Sides {
    /// Inputs.
    pub fit: Gram,
    pub held: Gram,
    /// Output gradients.
    pub fit_outputs: Gram,
    pub held_outputs: Gram,
}

/// A rounded matrix.
pub(super) struct Rounded {
    pub options: RoundingOptions,
    /// `tr(G E C E^T)` on held-out tokens, over sampled rows, with input statistics alone and with both.
    pub held_out: (f64, f64),
    /// All blocks of the matrix.
    pub blocks: Vec<u8>,
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
        (n_rows, n_columns): (u64, usize),
    ) -> Result<Option<(Gram, Gram)>, Error> {
        let Some(outputs) = self.outputs.as_ref().filter(|_| KroneckerRounding::supports(rows.dtype)) else {
            return Ok(None);
        };
        // Two metrics with their factors and statistics; weights, points and errors, twice.
        let n_columns = n_columns as u64;
        let bytes = 16 * (n_columns.pow(2) + n_rows.pow(2)) + 20 * n_rows * n_columns;
        if bytes > MOST_BYTES {
            return Ok(None);
        }
        let found = outputs.gram(rows.tensor, None)?;
        Ok(found.filter(|(fit, held)| {
            let has_all = |gram: &Gram| gram.n_columns() as u64 == n_rows && gram.n_tokens() > 0;
            // Gradients that are all zero carry no information.
            has_all(fit)
                && has_all(held)
                && (0..fit.n_columns()).any(|row| fit.sums()[row * (fit.n_columns() + 1)] > 0.0)
        }))
    }

    /// Rounds a matrix with both statistics after rounding with `options`. `None` if that is not better on
    /// held-out tokens.
    pub(super) fn round_both(
        &self,
        rows: &StockRows<'_>,
        options: &RoundingOptions,
        sides: Sides,
    ) -> Result<Option<Rounded>, Error> {
        let Sides { fit, held, fit_outputs, held_outputs } = sides;
        let (n_columns, n_rows, dtype) = (fit.n_columns(), fit_outputs.n_columns(), rows.dtype);
        let options =
            RoundingOptions { output_shrinkage: Some(RoundingOptions::OUTPUT_SHRINKAGE), ..*options };
        // Evenly spread rows, treated as if the matrix had no others.
        let n_sampled = n_rows.min(SAMPLE_ROWS);
        let sampled: Vec<usize> = (0..n_sampled).map(|index| index * n_rows / n_sampled).collect();
        let encoded = |rows_of: &[usize]| -> Result<(Vec<f32>, Vec<u8>), Error> {
            let rows_of: Vec<u64> = rows_of.iter().map(|row| *row as u64).collect();
            let values = self.decoded(rows.tensor, &rows_of, n_columns, rows.level)?;
            let blocks = self.encode(&values, n_columns, rows)?;
            Ok((values, blocks))
        };
        let (values, mut one) = encoded(&sampled)?;
        Rounding::for_type(&fit, &options, dtype)?.refine(dtype, &values, &mut one)?;
        let mut both = one.clone();
        let (fit_part, held_part) = (part_of(&fit_outputs, &sampled), part_of(&held_outputs, &sampled));
        match KroneckerRounding::new(&fit, &fit_part, &options) {
            // Rows that no prediction depends on.
            Err(Error::InputsAreZero) => return Ok(None),
            made => made?.refine(dtype, &values, &mut both)?,
        }
        let error = |blocks: &[u8]| divergence(&held, &held_part, dtype, &values, blocks);
        let held_out = match (error(&one), error(&both)) {
            (Err(Error::InputsAreZero), _) | (_, Err(Error::InputsAreZero)) => return Ok(None),
            (one, both) => (one?, both?),
        };
        // False as well if one is NaN.
        let is_better = held_out.1 < held_out.0;
        if !is_better {
            return Ok(None);
        }
        let (mut inputs, mut outputs) = (fit, fit_outputs);
        inputs.add(&held);
        outputs.add(&held_outputs);
        drop((held, held_outputs));
        let (values, mut blocks) = encoded(&(0..n_rows).collect::<Vec<_>>())?;
        Rounding::for_type(&inputs, &options, dtype)?.refine(dtype, &values, &mut blocks)?;
        KroneckerRounding::new(&inputs, &outputs, &options)?.refine(dtype, &values, &mut blocks)?;
        Ok(Some(Rounded { options, held_out, blocks }))
    }
}

/// Submatrix of some rows.
fn part_of(gram: &Gram, rows: &[usize]) -> Gram {
    let (n, all) = (rows.len(), gram.n_columns());
    let sums = rows.iter().flat_map(|i| rows.iter().map(move |j| gram.sums()[i * all + j])).collect();
    Gram::from_sums(n, gram.n_tokens(), sums).expect("one sum per pair")
}

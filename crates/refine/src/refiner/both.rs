//! Matrices that are rounded by both sides: whole, when the first of their rows comes.

use super::{Refiner, StockRows};
use crate::{BothSides, Error, Gram, Rounding, RoundingOptions, divergence, moments::MomentsCache};

/// Rows that tell whether both sides are better than one: enough that what they have to do with each other is seen.
const SAMPLE_ROWS: usize = 256;

/// Bytes that the rounding of one matrix may take. Larger ones are rounded by one side.
const MOST_BYTES: u64 = 4 << 30;

/// The moments of both sides of a matrix, over the tokens to learn from and over those held out.
pub(super) struct Sides {
    /// What goes in.
    pub fit: Gram,
    pub held: Gram,
    /// Gradients at what comes out.
    pub fit_outputs: Gram,
    pub held_outputs: Gram,
}

/// A matrix rounded by both sides.
pub(super) struct Rounded {
    pub options: RoundingOptions,
    /// Mean squares of predictions' change on held-out tokens, of sampled rows: by one side, and by both.
    pub held_out: (f64, f64),
    /// All of its blocks.
    pub blocks: Vec<u8>,
}

impl Refiner {
    /// Lets rows of a matrix know of each other, by moments of gradients at what comes out of it.
    #[must_use]
    pub fn with_outputs(mut self, outputs: MomentsCache) -> Refiner {
        self.outputs = Some(outputs);
        self
    }

    /// The moments of gradients at what comes out of a matrix, where there are any and it may be rounded by both sides.
    pub(super) fn outputs_of(
        &self,
        rows: &StockRows<'_>,
        (n_rows, n_columns): (u64, usize),
    ) -> Result<Option<(Gram, Gram)>, Error> {
        let Some(outputs) = self.outputs.as_ref().filter(|_| BothSides::takes(rows.dtype)) else {
            return Ok(None);
        };
        // Both metrics with their factors and the moments that they are made of; weights, points and errors, twice.
        let n_columns = n_columns as u64;
        let bytes = 16 * (n_columns.pow(2) + n_rows.pow(2)) + 20 * n_rows * n_columns;
        if bytes > MOST_BYTES {
            return Ok(None);
        }
        let found = outputs.gram(rows.tensor, None)?;
        Ok(found.filter(|(fit, held)| {
            let has_all = |gram: &Gram| gram.n_columns() as u64 == n_rows && gram.n_tokens() > 0;
            // Of gradients that are all zero nothing is learnt.
            has_all(fit)
                && has_all(held)
                && (0..fit.n_columns()).any(|row| fit.sums()[row * (fit.n_columns() + 1)] > 0.0)
        }))
    }

    /// Rounds a matrix by both sides, behind one side with `options`. None where that is no better on tokens held out.
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
        // Rows that are spread evenly, as if the matrix had no others.
        let n_sampled = n_rows.min(SAMPLE_ROWS);
        let sampled: Vec<usize> = (0..n_sampled).map(|index| index * n_rows / n_sampled).collect();
        let encoded = |wanted: &[usize]| -> Result<(Vec<f32>, Vec<u8>), Error> {
            let wanted: Vec<u64> = wanted.iter().map(|row| *row as u64).collect();
            let values = self.decoded(rows.tensor, &wanted, n_columns, rows.level)?;
            let blocks = self.encode(&values, n_columns, rows)?;
            Ok((values, blocks))
        };
        let (values, mut one) = encoded(&sampled)?;
        Rounding::for_type(&fit, &options, dtype)?.refine(dtype, &values, &mut one)?;
        let mut both = one.clone();
        let (fit_part, held_part) = (part_of(&fit_outputs, &sampled), part_of(&held_outputs, &sampled));
        match BothSides::new(&fit, &fit_part, &options) {
            // Rows that no prediction depends on.
            Err(Error::InputsAreZero) => return Ok(None),
            made => made?.refine(dtype, &values, &mut both)?,
        }
        let error = |blocks: &[u8]| divergence(&held, &held_part, dtype, &values, blocks);
        let held_out = match (error(&one), error(&both)) {
            (Err(Error::InputsAreZero), _) | (_, Err(Error::InputsAreZero)) => return Ok(None),
            (one, both) => (one?, both?),
        };
        // Not so either where one is no number.
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
        BothSides::new(&inputs, &outputs, &options)?.refine(dtype, &values, &mut blocks)?;
        Ok(Some(Rounded { options, held_out, blocks }))
    }
}

/// The moments of some rows among each other.
fn part_of(gram: &Gram, rows: &[usize]) -> Gram {
    let (n, all) = (rows.len(), gram.n_columns());
    let sums = rows.iter().flat_map(|i| rows.iter().map(move |j| gram.sums()[i * all + j])).collect();
    Gram::from_sums(n, gram.n_tokens(), sums).expect("as many as there are pairs")
}

//! The metric for errors.

use ndarray::Array2;

use super::RoundingOptions;
use crate::{Error, Gram};

/// `H`, scaled so that the Hessian's diagonal has mean 1.
#[derive(Debug)]
pub struct Metric {
    /// (n_columns, n_columns), columns in file order.
    h: Array2<f32>,
    /// `1 / H[j, j]`.
    inverse_diagonal: Vec<f32>,
}

impl Metric {
    /// `H` for a Hessian and options.
    pub fn new(gram: &Gram, options: &RoundingOptions) -> Result<Metric, Error> {
        let (shrinkage, damping) = (options.shrinkage, options.damping);
        if !((0.0..=1.0).contains(&shrinkage) && damping >= 0.0 && damping.is_finite()) {
            return Err(Error::RoundingOptions { shrinkage, damping });
        }
        let n = gram.n_columns();
        let mean = mean_square(gram)?;
        // The scale of inputs cancels in every step; normalizing it keeps f32 in range.
        let scale = 1.0 / mean;
        let off_diagonal = f64::from(1.0 - shrinkage) * scale;
        let sums = gram.sums();
        let h = Array2::from_shape_fn((n, n), |(i, j)| {
            let sum = f64::from(sums[i * n + j]);
            if i == j { (sum * scale + f64::from(damping)) as f32 } else { (sum * off_diagonal) as f32 }
        });
        // A column without input has a zero diagonal unless damping is added; its levels stay.
        let inverse = |h: f32| if h > 0.0 { 1.0 / h } else { 0.0 };
        let inverse_diagonal = h.diag().iter().map(|h| inverse(*h)).collect();
        Ok(Metric { h, inverse_diagonal })
    }

    /// Number of columns.
    pub fn n_columns(&self) -> usize {
        self.inverse_diagonal.len()
    }

    /// `H`.
    pub fn h(&self) -> &Array2<f32> {
        &self.h
    }

    /// `1 / H[j, j]`, or 0 where that is 0.
    pub fn inverse_diagonal(&self) -> &[f32] {
        &self.inverse_diagonal
    }

    /// Columns by falling diagonal, or groups of neighbors by the sum of their diagonals; ties by position.
    pub fn order(&self, group: usize) -> Vec<usize> {
        let diagonal = self.h.diag();
        let sums: Vec<f64> = (0..self.n_columns())
            .step_by(group)
            .map(|at| (at..at + group).map(|j| f64::from(diagonal[j])).sum())
            .collect();
        let mut order: Vec<usize> = (0..sums.len()).collect();
        order.sort_by(|a, b| sums[*b].total_cmp(&sums[*a]).then(a.cmp(b)));
        order.into_iter().flat_map(|at| at * group..(at + 1) * group).collect()
    }
}

/// Mean of the diagonal, after checking that the sums are valid.
pub fn mean_square(gram: &Gram) -> Result<f64, Error> {
    let n = gram.n_columns();
    if gram.n_tokens() == 0 || n == 0 {
        return Err(Error::NoTokens);
    }
    if let Some(at) = gram.sums().iter().position(|sum| !sum.is_finite()) {
        return Err(Error::MomentNotFinite { row: at / n, column: at % n });
    }
    let squares = || gram.sums().iter().step_by(n + 1);
    if let Some(column) = squares().position(|sum| *sum < 0.0) {
        return Err(Error::NegativeSquare { column });
    }
    let mean = squares().map(|sum| f64::from(*sum)).sum::<f64>() / n as f64;
    if mean == 0.0 { Err(Error::InputsAreZero) } else { Ok(mean) }
}

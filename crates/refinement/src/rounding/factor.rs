//! `H = V^T D V` with `V` unit lower triangular, in a given column order (an LDL decomposition).
//!
//! For a row `e` of errors in that order, `e H e^T = sum_j d_j (e_j + sum_{i<j} V[j, i] e_i)^2`: the term of
//! column `j` depends only on earlier columns. Each column can be rounded given the earlier errors, as if
//! later columns could compensate freely. This is the Cholesky factorization from the last column to the
//! first.

use gguf_products::matmul;
use ndarray::{Array2, Axis, s};
use rayon::prelude::*;

use super::{PANEL, RoundingOptions, metric::Metric};

/// The factor and its order.
#[derive(Debug)]
pub struct Factor {
    order: Vec<usize>,
    /// (n_columns, n_columns), row-major: `V` below the diagonal; the rest is undefined.
    v: Array2<f32>,
    /// (n_columns, PANEL): row `j` contains column `j` of `V` within its panel, from the panel's first row
    /// on.
    within: Vec<f32>,
    /// `D`.
    pivots: Vec<f32>,
}

impl Factor {
    /// Factors `H` in a column order, panel by panel from the last.
    pub fn new(metric: &Metric, order: Vec<usize>, options: &RoundingOptions) -> Factor {
        let (level, h) = (options.level, metric.h());
        let n = order.len();
        let mut v = Array2::zeros((n, n));
        v.outer_iter_mut().into_par_iter().enumerate().for_each(
            |(j, mut row): (usize, ndarray::ArrayViewMut1<'_, f32>)| {
                for i in 0..=j {
                    row[i] = h[[order[j], order[i]]];
                }
            },
        );
        // A pivot is the least cost of a column's error after compensation, so at least what was added to the
        // diagonal. Rounding in single precision can violate that.
        let floor = options.damping.max(1e-6);
        let mut all_pivots = vec![0.0; n];
        for first in (0..n).step_by(PANEL).rev() {
            let end = n.min(first + PANEL);
            let (mut above, mut panel) = v.view_mut().split_at(Axis(0), end).0.split_at(Axis(0), first);
            let rows = panel.as_slice_mut().expect("whole rows of a row-major matrix");
            let pivots = level.vectorize(
                #[inline(always)]
                || eliminate(rows, n, first, end, floor),
            );
            all_pivots[first..end].copy_from_slice(&pivots);
            // A[above, above] -= (D V)^T V, (first, panel) x (panel, first), below the diagonal only.
            let panel = panel.slice(s![.., ..first]);
            let scaled = Array2::from_shape_fn((first, end - first), |(i, k)| pivots[k] * panel[[k, i]]);
            above.axis_chunks_iter_mut(Axis(0), PANEL).into_par_iter().enumerate().for_each(
                |(block, mut rows)| {
                    let (from, to) = (block * PANEL, block * PANEL + rows.nrows());
                    let out = rows.slice_mut(s![.., ..to]);
                    matmul(level, true, -1.0, scaled.slice(s![from..to, ..]), panel.slice(s![.., ..to]), out);
                },
            );
        }
        let mut within = vec![0.0; n * PANEL];
        for (j, within) in within.chunks_exact_mut(PANEL).enumerate() {
            let first = j - j % PANEL;
            for (k, within) in (first..n.min(first + PANEL)).zip(within) {
                *within = v[[k, j]];
            }
        }
        Factor { order, v, within, pivots: all_pivots }
    }

    /// Column of the matrix at each place.
    pub fn order(&self) -> &[usize] {
        &self.order
    }

    /// `V`; only entries below the diagonal are defined.
    pub fn v(&self) -> &Array2<f32> {
        &self.v
    }

    /// `d` at a place.
    #[inline(always)]
    pub fn pivot(&self, place: usize) -> f32 {
        self.pivots[place]
    }

    /// `V[first + k, j]` for the rows of the panel of `j`, which starts at `first`.
    #[inline(always)]
    pub fn within(&self, j: usize) -> &[f32] {
        &self.within[j * PANEL..][..PANEL]
    }
}

/// Computes rows `first..end` of `V` (one panel) in place from the remainder of `H` after all later panels;
/// `rows` have `n` elements each. Returns their pivots `d`.
#[inline(always)]
fn eliminate(rows: &mut [f32], n: usize, first: usize, end: usize, floor: f32) -> Vec<f32> {
    let mut pivots = vec![0.0; end - first];
    for j in (0..end - first).rev() {
        let (before, row) = rows.split_at_mut(j * n);
        let row = &mut row[..=first + j];
        let pivot = row[first + j].max(floor);
        pivots[j] = pivot;
        for value in &mut row[..first + j] {
            *value /= pivot;
        }
        // Removes the part that column `j` explains from the rows before it: A[i, ..] -= V[j, i] d_j V[j,
        // ..].
        for (i, before) in before.chunks_exact_mut(n).enumerate() {
            let factor = row[first + i] * pivot;
            for (left, value) in before[..=first + i].iter_mut().zip(&*row) {
                *left -= factor * value;
            }
        }
    }
    pivots
}

#[cfg(test)]
mod tests {
    use gguf_testkit::normal;

    use super::*;
    use crate::Gram;

    /// Random Hessian of `n` columns, some of which are nearly sums of others.
    fn metric(n: usize, options: &RoundingOptions) -> Metric {
        let x: Vec<f32> =
            (0..n * (n + 5)).map(|i| normal(3, i as u64) * (1.0 + (i % n % 9) as f32) * 20.0).collect();
        let moment = |i: usize, j: usize| (0..n + 5).map(|t| x[t * n + i] * x[t * n + j]).sum::<f32>();
        let sums = (0..n * n).map(|at| moment(at / n, at % n)).collect();
        Metric::new(&Gram::from_sums(n, n as u64 + 5, sums).unwrap(), options).unwrap()
    }

    /// `H = V^T D V` by the plain recursion in double precision, from the last column to the first.
    fn plain(metric: &Metric, order: &[usize]) -> Vec<Vec<f64>> {
        let n = order.len();
        let mut a: Vec<Vec<f64>> =
            (0..n).map(|j| (0..n).map(|i| f64::from(metric.h()[[order[j], order[i]]])).collect()).collect();
        for j in (0..n).rev() {
            let pivot = a[j][j];
            let row: Vec<f64> = a[j][..j].iter().map(|value| value / pivot).collect();
            for i in 0..j {
                for k in 0..j {
                    a[i][k] -= row[i] * pivot * row[k];
                }
            }
            a[j][..j].copy_from_slice(&row);
        }
        a
    }

    #[test]
    fn blocked_factor_matches_plain_recursion() {
        let options = RoundingOptions { shrinkage: 0.1, ..RoundingOptions::default() };
        for n in [1, 2, PANEL - 1, PANEL, PANEL + 1, 3 * PANEL + 17] {
            let metric = metric(n, &options);
            let factor = Factor::new(&metric, metric.order(1), &options);
            let diagonal: Vec<f32> = factor.order().iter().map(|j| metric.h()[[*j, *j]]).collect();
            assert!(diagonal.is_sorted_by(|a, b| a >= b), "falling diagonal");
            let expected = plain(&metric, factor.order());
            for j in 0..n {
                for i in 0..j {
                    let (found, expected) = (f64::from(factor.v()[[j, i]]), expected[j][i]);
                    assert!(
                        (found - expected).abs() < 2e-4 * (1.0 + expected.abs()),
                        "{n}: {j} {i}: {found} {expected}"
                    );
                    if j / PANEL == i / PANEL {
                        assert_eq!(factor.within(i)[j % PANEL], factor.v()[[j, i]]);
                    }
                }
            }
        }
    }
}

//! Normalization of rows.
//!
//! ```text
//! rms:    y = x / sqrt(mean(x^2) + epsilon) * weight + bias
//! layer:  y = (x - mean(x)) / sqrt(mean((x - mean(x))^2) + epsilon) * weight + bias
//! ```
//!
//! A grouped norm takes the mean of each group of neighboring elements; its weight is as long as the row.

use rayon::prelude::*;

use super::{Rows, activation::sum, recurrence::dot, vectorize};

/// Statistics that a row is normalized by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NormKind {
    /// The root of the mean of squares.
    Rms,
    /// Mean and variance, like in LayerNorm.
    Layer,
    /// The root of the mean of squares of each of this many equal groups of a row.
    GroupedRms(usize),
}

/// A normalization with its weights, each optional.
#[derive(Debug, Clone)]
pub struct Norm {
    /// Its kind.
    pub kind: NormKind,
    /// Added to the mean of squares, or to the variance.
    pub epsilon: f32,
    /// Factors, as long as a row, or as several groups together.
    pub weight: Option<Vec<f32>>,
    /// Added at the end.
    pub bias: Option<Vec<f32>>,
}

impl Norm {
    /// Elements that are normalized together in a row of `width`.
    fn group_width(&self, width: usize) -> usize {
        let n_groups = if let NormKind::GroupedRms(n) = self.kind { n } else { 1 };
        (width / n_groups.max(1)).max(1)
    }

    /// Normalizes every row in place.
    pub fn apply(&self, rows: &mut Rows) {
        let width = self.group_width(rows.ncols());
        self.apply_groups(rows, width);
    }

    /// Normalizes every row of `from` into `to`.
    pub fn apply_into(&self, from: &Rows, to: &mut Rows) {
        let width = from.ncols().max(1);
        let group_width = self.group_width(width);
        let from = from.as_slice().par_chunks(width * 16);
        to.as_mut_slice().par_chunks_mut(width * 16).zip(from).for_each(|(to, from)| {
            to.copy_from_slice(from);
            to.chunks_exact_mut(width).for_each(|row| self.apply_row(row, group_width));
        });
    }

    /// Normalizes every group of `width` elements of every row in place. Weights are for one
    /// group or for all groups of a row.
    pub fn apply_groups(&self, rows: &mut Rows, width: usize) {
        let row_width = rows.ncols();
        rows.as_mut_slice().par_chunks_mut(row_width * 16).for_each(|rows| {
            rows.chunks_exact_mut(row_width).for_each(|row| self.apply_row(row, width));
        });
    }

    /// Backward pass: for rows `x` (n, width) that were normalized in groups, gradients of the output become
    /// those of the input. With `c = x`, or `x - mean(x)`, `s` the root that `c` was divided by and `d =
    /// gradient * weight`:
    ///
    /// ```text
    /// rms:    d_i <- (d_i - c_i mean(d c) / s^2) / s
    /// layer:  d_i <- (d_i - mean(d) - c_i mean(d c) / s^2) / s
    /// ```
    pub fn backward_groups(&self, x: &Rows, gradients: &mut Rows, width: usize) {
        let row_width = x.ncols().max(1);
        let x = x.as_slice().par_chunks(row_width);
        gradients.as_mut_slice().par_chunks_mut(row_width).zip(x).for_each(|(gradients, x)| {
            // The input is still needed elsewhere.
            let mut centred = vec![0.0; width];
            let groups = gradients.chunks_exact_mut(width).zip(x.chunks_exact(width)).enumerate();
            for (g, (gradients, x)) in groups {
                centred.copy_from_slice(x);
                self.backward_group(g * width, &mut centred, gradients);
            }
        });
    }

    /// Mean and variance of complete rows.
    pub fn backward(&self, x: &Rows, gradients: &mut Rows) {
        self.backward_groups(x, gradients, self.group_width(x.ncols()));
    }

    /// One group: `c` comes as `x`.
    fn backward_group(&self, at: usize, c: &mut [f32], d: &mut [f32]) {
        let n = c.len() as f32;
        let mean = |values: &[f32]| sum(values, |x| x) / n;
        if let Some(weight) = &self.weight {
            let at = if weight.len() > d.len() { at } else { 0 };
            d.iter_mut().zip(&weight[at..]).for_each(|(d, weight)| *d *= weight);
        }
        let mut mean_d = 0.0;
        if self.kind == NormKind::Layer {
            let mean_c = mean(c);
            c.iter_mut().for_each(|x| *x -= mean_c);
            mean_d = mean(d);
        }
        // Removes the component along `c`: a longer row is scaled back to the same length.
        let square = sum(c, |x| x * x) / n + self.epsilon;
        let along = dot(c, d) / n / square;
        let scale = 1.0 / square.sqrt();
        d.iter_mut().zip(c).for_each(|(d, c)| *d = (*d - mean_d - *c * along) * scale);
    }

    fn apply_row(&self, row: &mut [f32], width: usize) {
        for (g, group) in row.chunks_exact_mut(width).enumerate() {
            self.apply_group(g * width, group);
        }
    }

    fn apply_group(&self, at: usize, group: &mut [f32]) {
        vectorize(
            #[inline(always)]
            || self.apply_vectors(at, group),
        );
    }

    #[inline(always)]
    fn apply_vectors(&self, at: usize, group: &mut [f32]) {
        let n = group.len() as f32;
        // After removing the mean, the mean of squares is the variance: both kinds continue alike.
        if self.kind == NormKind::Layer {
            let mean = sum(
                group,
                #[inline(always)]
                |x| x,
            ) / n;
            group.iter_mut().for_each(|x| *x -= mean);
        }
        let squares = sum(
            group,
            #[inline(always)]
            |x| x * x,
        );
        // epsilon keeps rows of zeros finite.
        let scale = 1.0 / (squares / n + self.epsilon).sqrt();
        match &self.weight {
            Some(weight) => {
                // Weights of all groups of a row, or one group's for each.
                let at = if weight.len() > group.len() { at } else { 0 };
                group.iter_mut().zip(&weight[at..]).for_each(|(x, weight)| *x = *x * scale * weight);
            }
            None => group.iter_mut().for_each(|x| *x *= scale),
        }
        if let Some(bias) = &self.bias {
            let at = if bias.len() > group.len() { at } else { 0 };
            group.iter_mut().zip(&bias[at..]).for_each(|(x, bias)| *x += bias);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grouped_norm_divides_each_group_by_its_own_root() {
        let norm = Norm {
            kind: NormKind::GroupedRms(2),
            epsilon: 0.0,
            weight: Some(vec![1.0, 2.0, 3.0, 4.0]),
            bias: None,
        };
        // Means of squares: 1 and 9, 25 and 4.
        let rows = Rows::from_vec(2, 4, vec![1.0, -1.0, 3.0, 3.0, 7.0, 1.0, -2.0, 2.0]);
        let expected = [1.0, -2.0, 3.0, 4.0, 1.4, 0.4, -3.0, 4.0];
        let mut in_place = rows.clone();
        norm.apply(&mut in_place);
        let mut copy = Rows::zeros(2, 4);
        norm.apply_into(&rows, &mut copy);
        for (at, expected) in expected.into_iter().enumerate() {
            for found in [in_place.as_slice()[at], copy.as_slice()[at]] {
                assert!((found - expected).abs() < 1e-6, "{at}: {found} {expected}");
            }
        }
    }
}

//! Functions that combine tensors element by element.

#[cfg(doc)]
use crate::row_map::RowMap;
use crate::row_map::place_in_grid;

/// A function that combines tensors element by element.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Combination {
    /// `a b`.
    Product,
    /// The sum of all operands.
    Sum,
    /// Bilinear interpolation of the corners of a cell ([`RowMap::GridCorner`]), in double precision and rounded once.
    Bilinear {
        /// Rows of a side of the source.
        from: u64,
        /// Rows of a side of the output.
        to: u64,
    },
    /// Rows of a matrix, each divided by its element of a vector, but at least by `least`: codebooks that are stored as sums and
    /// counts. The first half of the sources are consecutive matrices, the second half their vectors.
    DividedRows {
        /// The smallest divisor.
        least: f32,
    },
    /// The factor of a batch norm, `w / sqrt(v + epsilon)`, of its weight and running variance.
    NormScale {
        /// The number that is added to the variance.
        epsilon: f32,
    },
    /// The summand of a batch norm, `b - m (w / sqrt(v + epsilon))`, of its bias, running mean, weight and running variance.
    NormShift {
        /// The number that is added to the variance.
        epsilon: f32,
    },
}

impl Combination {
    /// Number of source tensors. [`Combination::Sum`] and [`Combination::Bilinear`] combine pieces of one tensor. For
    /// [`Combination::DividedRows`], the number of sources of one codebook.
    pub fn n_sources(self) -> usize {
        match self {
            Combination::Sum | Combination::Bilinear { .. } => 1,
            Combination::Product | Combination::DividedRows { .. } | Combination::NormScale { .. } => 2,
            Combination::NormShift { .. } => 4,
        }
    }

    /// The element in output row `row` that is computed from `operands`, which are in the order of the sources. `round` is applied
    /// after every operation.
    ///
    /// Source of the norms: `ConformerAudioModel.modify_tensors` in `conversion/gemma.py`.
    pub fn apply(self, row: u64, operands: &[f32], round: impl Fn(f32) -> f32) -> f32 {
        let scale = |weight: f32, variance: f32, epsilon: f32| {
            round(weight / round(round(variance + epsilon).sqrt()))
        };
        match (self, operands) {
            (Combination::DividedRows { least }, &[sum, count]) => round(sum / count.max(least)),
            (Combination::NormScale { epsilon }, &[weight, variance]) => scale(weight, variance, epsilon),
            (Combination::NormShift { epsilon }, &[bias, mean, weight, variance]) => {
                round(bias - round(mean * scale(weight, variance, epsilon)))
            }
            (Combination::Bilinear { from, to }, &[a, b, c, d]) => {
                let [down, right] =
                    [row / to, row % to].map(|index| f64::from(place_in_grid(index, from, to).1));
                let between = |first: f32, second: f32| {
                    // The reference's weights are in single precision, and each pair adds up to exactly 1.
                    f64::from(first) * f64::from(1.0 - right as f32) + f64::from(second) * right
                };
                (between(a, b) * f64::from(1.0 - down as f32) + between(c, d) * down) as f32
            }
            (Combination::Product, [first, rest @ ..]) => {
                rest.iter().fold(*first, |product, factor| round(product * factor))
            }
            (_, [first, rest @ ..]) => rest.iter().fold(*first, |sum, summand| round(sum + summand)),
            (_, []) => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn norms_fold_into_scale_and_shift() {
        let (weight, bias, mean, variance, epsilon) = (3.0, 0.5, 2.0, 8.0, 1.0);
        let scale = Combination::NormScale { epsilon }.apply(0, &[weight, variance], |value| value);
        let shift =
            Combination::NormShift { epsilon }.apply(0, &[bias, mean, weight, variance], |value| value);
        assert_eq!((scale, shift), (1.0, -1.5));
    }

    #[test]
    fn rows_between_corners_are_interpolated() {
        use crate::row_map::RowMap;

        // A grid of 4 x 4 rows with the values 4 y + x becomes one of 3 x 3: places 0, 1.5 and 3.
        let (from, to) = (4, 3);
        let corners = [0, 1, 2, 3].map(|corner| RowMap::GridCorner { from, to, corner });
        let interpolated = |row| {
            let operands = corners.map(|map| map.source_rows(to * to).source_row(row) as f32);
            Combination::Bilinear { from, to }.apply(row, &operands, |value| value)
        };
        let values: Vec<f32> = (0..9).map(interpolated).collect();
        assert_eq!(values, [0.0, 1.5, 3.0, 6.0, 7.5, 9.0, 12.0, 13.5, 15.0]);
        // A grid of 1 x 1 takes the first row.
        assert_eq!(place_in_grid(0, 4, 1), (0, 0.0));
    }

    #[test]
    fn small_counts_do_not_divide() {
        let by = Combination::DividedRows { least: 0.5 };
        assert_eq!([4.0, 0.0].map(|count| by.apply(0, &[2.0, count], |value| value)), [0.5, 4.0]);
    }

    #[test]
    fn sums_and_products_take_all_operands() {
        assert_eq!(Combination::Sum.apply(0, &[1.0, 2.0, 4.0], |value| value), 7.0);
        assert_eq!(Combination::Product.apply(0, &[3.0, 5.0], |value| value), 15.0);
        // Every operation is rounded.
        assert_eq!(Combination::Product.apply(0, &[0.25, 0.5], |value| (value * 10.0).round() / 10.0), 0.1);
    }
}

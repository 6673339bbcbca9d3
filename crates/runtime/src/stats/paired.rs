//! Differences of files that were measured on the same chunks.

use super::Estimate;

impl Estimate {
    /// Mean of `second - first` over chunks. Both files find the same chunks hard, so the difference is known better than
    /// either value. A chunk counts once, because its positions are not independent.
    pub fn paired(first: &[f64], second: &[f64]) -> Estimate {
        Estimate::mean_of_few(first.iter().zip(second).map(|(first, second)| second - first))
    }

    /// Like this mean of `n` values, with an error of which the double covers 95 %: the quantile of Student's t distribution,
    /// divided by two. It is infinite or NaN for fewer than two values.
    pub fn widened(self, n: usize) -> Estimate {
        const QUANTILES: [f64; 9] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262];
        let factor = match n {
            0 | 1 => f64::INFINITY,
            // Above the list within 0.02 of the quantile, and not below two standard errors.
            _ => QUANTILES
                .get(n - 2)
                .map_or(f64::max(1.0, 0.98 + 1.3 / (n - 1) as f64), |quantile| quantile / 2.0),
        };
        Estimate { error: self.error * factor, ..self }
    }

    /// True if the estimate is above zero by more than two standard errors, so that another text would not reverse it.
    pub fn is_surely_positive(self) -> bool {
        self.value > 2.0 * self.error
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_paired_by_chunk() {
        // By hand: the differences 1, 2, 3 have the mean 2 and the standard error sqrt(1 / 3).
        let found = Estimate::paired(&[5.0, 0.0, 7.0], &[6.0, 2.0, 10.0]);
        assert!((found.value - 2.0).abs() < 1e-12 && (found.error - (1.0f64 / 3.0).sqrt()).abs() < 1e-12);
        // Student's t at 95 % with two degrees of freedom is 4.303: 2 is less than 4.303 times the error.
        assert!(found.is_surely_positive() && !found.widened(3).is_surely_positive());
        let same = Estimate::paired(&[1.0], &[2.0]).widened(1);
        assert!(!same.is_surely_positive(), "{same:?}");
    }
}

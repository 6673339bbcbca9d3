//! Numbers about predictions: perplexity, divergence, agreement, each with its error.
//!
//! The definitions are those of `tools/perplexity/perplexity.cpp` of llama.cpp as vendored in
//! llama-cpp-python 0.3.36, computed in f64 throughout, while the reference keeps single
//! positions in f32.

mod divergence;
mod metrics;
mod paired;
mod softmax;

use serde::{Deserialize, Serialize};

pub use divergence::{Comparison, Position, Prediction, Quantiles, compare_logits, compare_packed};
pub(crate) use metrics::metric;
pub use metrics::{Metric, fixed, significant};
pub use softmax::LogSoftmax;

/// A mean and its standard error, or what is derived from them.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Estimate {
    /// The estimated number.
    pub value: f64,
    /// One standard error.
    pub error: f64,
}

/// No error is stated for this many values or fewer: the variance of so few is too uncertain. Source:
/// `mean_and_uncertainty`.
const FEWEST_FOR_ERROR: usize = 10;

impl Estimate {
    /// The mean of values and its standard error; zeros for none at all.
    ///
    /// Source: `mean_and_uncertainty`.
    pub fn mean(values: impl IntoIterator<Item = f64>) -> Estimate {
        Estimate::mean_from(FEWEST_FOR_ERROR + 1, values)
    }

    /// Like [`Estimate::mean`], with an error for two values or more: for counts of a small range, and for values whose number is
    /// taken into account.
    pub fn mean_of_few(values: impl IntoIterator<Item = f64>) -> Estimate {
        Estimate::mean_from(2, values)
    }

    /// The mean, and its error if there are at least `fewest` values.
    fn mean_from(fewest: usize, values: impl IntoIterator<Item = f64>) -> Estimate {
        let (mut n, mut sum, mut squares) = (0usize, 0.0, 0.0);
        for value in values {
            n += 1;
            sum += value;
            squares += value * value;
        }
        if n == 0 {
            return Estimate::default();
        }
        // mean = sum x / n;  error^2 = (sum x^2 / n - mean^2) / (n - 1), the unbiased variance of the mean. Rounding
        // can leave a negative variance where all values are equal, which counts as none.
        let value = sum / n as f64;
        let variance = squares / n as f64 - value * value;
        let error = if variance > 0.0 && n >= fewest { (variance / (n - 1) as f64).sqrt() } else { 0.0 };
        Estimate { value, error }
    }

    /// The share of `n` cases that hold, with the error of a binomial proportion.
    pub fn share(holding: usize, n: usize) -> Estimate {
        if n == 0 {
            return Estimate::default();
        }
        // A case is 1 or 0, so that its variance is p (1 - p); the mean of n has that over n - 1.
        let value = holding as f64 / n as f64;
        let error = if n > 1 { (value * (1.0 - value) / (n - 1) as f64).sqrt() } else { 0.0 };
        Estimate { value, error }
    }

    /// `exp` of the estimate, its error by the slope at its value.
    pub fn exp(self) -> Estimate {
        // d exp(x) = exp(x) dx.
        let value = libm::exp(self.value);
        Estimate { value, error: value * self.error }
    }

    /// The square root of the estimate, its error by the slope at its value.
    pub fn sqrt(self) -> Estimate {
        let value = self.value.max(0.0).sqrt();
        // d sqrt(x) = dx / (2 sqrt(x)); `value` is the root already.
        let error = if value > 0.0 { 0.5 / value * self.error } else { 0.0 };
        Estimate { value, error }
    }
}

/// Perplexity: `exp` of the mean of negative log-likelihoods, in nats.
pub fn perplexity(nll: impl IntoIterator<Item = f64>) -> Estimate {
    Estimate::mean(nll).exp()
}

/// The covariance of the means of two series over the same positions.
///
/// Source: `covariance` in `kl_divergence`.
fn covariance_of_means(pairs: impl IntoIterator<Item = (f64, f64)>) -> f64 {
    let (mut n, mut a, mut b, mut ab) = (0usize, 0.0, 0.0, 0.0);
    for (x, y) in pairs {
        n += 1;
        a += x;
        b += y;
        ab += x * y;
    }
    if n < FEWEST_FOR_ERROR {
        return 0.0;
    }
    // Cov(mean a, mean b) = (E[ab] - E[a] E[b]) / (n - 1).
    let count = n as f64;
    (ab / count - (a / count) * (b / count)) / (count - 1.0)
}

/// The value below which a fraction of sorted values lies, between two by their
/// distance; NaN for none.
///
/// Source: `percentile` in `kl_divergence`.
pub fn percentile(sorted: &[f64], fraction: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    // Values 0 to n - 1 cut 0 to 1 into n - 1 parts; between two, the value goes linearly, so that p99.9 of
    // a thousand values is not simply the largest.
    let place = fraction.clamp(0.0, 1.0) * last as f64;
    let (below, share) = (place as usize, place.fract());
    (1.0 - share) * sorted[below] + share * sorted[(below + 1).min(last)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_and_errors_match_hand_computed() {
        // 0 and 2 in turn, twelve times: mean 1, variance 1, error of the mean 1 / sqrt(11).
        let estimate = Estimate::mean((0..12).map(|i| f64::from(i % 2) * 2.0));
        assert_eq!(estimate.value, 1.0);
        assert!((estimate.error - (1.0f64 / 11.0).sqrt()).abs() < 1e-15);
        // Ten are too few to say.
        assert_eq!(Estimate::mean((0..10).map(|i| f64::from(i % 2))).error, 0.0);
        assert_eq!(Estimate::mean_of_few([1.0, 3.0]), Estimate { value: 2.0, error: 1.0 });
        assert_eq!(Estimate::mean_of_few([1.0]), Estimate { value: 1.0, error: 0.0 });
        assert_eq!(Estimate::mean([]), Estimate::default());
        assert_eq!(perplexity([4.0f64.ln(); 3]).value.round(), 4.0);
    }

    #[test]
    fn shares_and_roots_match_hand_computed() {
        let share = Estimate::share(1, 5);
        assert_eq!(share.value, 0.2);
        assert!((share.error - (0.2f64 * 0.8 / 4.0).sqrt()).abs() < 1e-15);
        let root = Estimate { value: 16.0, error: 0.8 }.sqrt();
        assert_eq!((root.value, root.error), (4.0, 0.1));
        assert_eq!(Estimate::default().sqrt(), Estimate::default());
    }

    #[test]
    fn percentiles_interpolate_values() {
        let sorted = [1.0, 2.0, 4.0];
        for (fraction, expected) in [(0.0, 1.0), (0.25, 1.5), (0.5, 2.0), (0.75, 3.0), (1.0, 4.0), (7.0, 4.0)]
        {
            assert_eq!(percentile(&sorted, fraction), expected);
        }
        assert!(percentile(&[], 0.5).is_nan());
    }

    #[test]
    fn self_covariance_is_variance() {
        let values: Vec<f64> = (0..20).map(|i| f64::from(i * i % 7)).collect();
        let error = Estimate::mean(values.iter().copied()).error;
        let covariance = covariance_of_means(values.iter().map(|x| (*x, *x)));
        assert!((covariance - error * error).abs() < 1e-15);
    }
}

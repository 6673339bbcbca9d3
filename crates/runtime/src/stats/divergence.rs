//! Two models' predictions of the same tokens, side by side.

use serde::{Deserialize, Serialize};

use super::{Estimate, LogSoftmax, covariance_of_means, percentile, softmax::top_k};
use crate::ops::{exp, vectorize};

/// Comparison of the predictions of one token.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Position {
    /// The base's negative log-likelihood of the token that came, in nats.
    pub nll_base: f64,
    /// The other's.
    pub nll: f64,
    /// Kullback-Leibler divergence of the other from the base, in nats.
    pub kl: f64,
    /// True if the most likely token is the same.
    pub same_top: bool,
    /// Number of the base's `k` most likely tokens that are among the other's.
    pub shared_top_k: u32,
}

impl Position {
    /// The probability of the token that came by the other less that by the base, from -1 to 1.
    pub fn p_diff(&self) -> f64 {
        libm::exp(-self.nll) - libm::exp(-self.nll_base)
    }

    /// Bytes of a position in a file of parts.
    pub const STORED_BYTES: usize = 29;

    /// As it stands in a file of parts: `nll_base`, `nll`, `kl` as f64, `shared_top_k` as u32, `same_top` as a byte, little-endian.
    pub fn to_bytes(&self) -> [u8; Position::STORED_BYTES] {
        let mut bytes = [0; Position::STORED_BYTES];
        for (at, value) in [self.nll_base, self.nll, self.kl].into_iter().enumerate() {
            bytes[8 * at..8 * at + 8].copy_from_slice(&value.to_le_bytes());
        }
        bytes[24..28].copy_from_slice(&self.shared_top_k.to_le_bytes());
        bytes[28] = self.same_top.into();
        bytes
    }

    /// Inverse of [`Position::to_bytes`].
    pub fn from_bytes(bytes: &[u8; Position::STORED_BYTES]) -> Position {
        let float = |at: usize| f64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        Position {
            nll_base: float(0),
            nll: float(8),
            kl: float(16),
            same_top: bytes[28] != 0,
            shared_top_k: u32::from_le_bytes(std::array::from_fn(|i| bytes[24 + i])),
        }
    }

    /// True if every metric is finite.
    pub(crate) fn is_finite(&self) -> bool {
        [self.nll_base, self.nll, self.kl].into_iter().all(f64::is_finite)
    }
}

/// Compares two predictions: logits (n_vocab) each, and the token that came.
///
/// The divergence is `sum p (ln p - ln q)` over the entire vocabulary, p of the base, q of the
/// other. The reference leaves out what its 16 bits cannot tell (`ln p <= -16`).
pub fn compare_logits(base: &[f32], other: &[f32], token: usize, k: usize) -> Position {
    Prediction::of(base, k).compare(other, token)
}

/// Parts of a base's prediction that do not depend on the other file.
#[derive(Debug, Clone)]
pub struct Prediction<'a> {
    /// (n_vocab).
    logits: &'a [f32],
    softmax: LogSoftmax,
    /// `sum_i exp(a_i - max)`, in double precision.
    sum: f64,
    /// The most likely tokens.
    top: Vec<(f32, u32)>,
}

impl<'a> Prediction<'a> {
    /// Prepares logits (n_vocab); `k` is the number of most likely tokens to look for in others.
    pub fn of(logits: &'a [f32], k: usize) -> Prediction<'a> {
        let softmax = LogSoftmax::of(logits);
        let mut top = Vec::with_capacity(k);
        top_k(logits, k, &mut top);
        let sum = sum_by_pairs(
            logits,
            logits,
            #[inline(always)]
            |logit, _| f64::from(exp(logit - softmax.max)),
        );
        Prediction { logits, softmax, sum, top }
    }

    /// [`compare_logits`] with the same base.
    pub fn compare(&self, other: &[f32], token: usize) -> Position {
        let (p, q) = (&self.softmax, LogSoftmax::of(other));
        // With logits a of the base and b of the other, ln p_i = a_i - s_p and ln q_i = b_i - s_q, where s is max plus
        // ln of the sum. As the p_i add up to 1, both s leave the sum:
        //   KL = sum_i p_i (ln p_i - ln q_i) = sum_i p_i (a_i - b_i) - (s_p - s_q),   p_i = e_i / sum_j e_j.
        let weighted = sum_by_pairs(
            self.logits,
            other,
            #[inline(always)]
            |a, b| f64::from(exp(a - p.max)) * (f64::from(a) - f64::from(b)),
        );
        Position {
            nll_base: -p.log_prob(self.logits[token]),
            nll: -q.log_prob(other[token]),
            kl: weighted / self.sum - (p.shift() - q.shift()),
            same_top: p.top == q.top,
            shared_top_k: n_shared(&self.top, other),
        }
    }
}

/// `sum_i f(a_i, b_i)` in lanes that are added up in order: the same at every level.
#[inline(always)]
fn sum_by_pairs(a: &[f32], b: &[f32], term: impl Fn(f32, f32) -> f64) -> f64 {
    // Enough additions side by side that none waits for the one before it; in double precision, as divergences are small
    // differences of large sums.
    const LANES: usize = 16;
    vectorize(
        #[inline(always)]
        || {
            let mut lanes = [0.0f64; LANES];
            let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
            for (a, b) in a.iter().zip(b) {
                for lane in 0..LANES {
                    lanes[lane] += term(a[lane], b[lane]);
                }
            }
            let rest: f64 = a_rest.iter().zip(b_rest).map(|(a, b)| term(*a, *b)).sum();
            lanes.iter().sum::<f64>() + rest
        },
    )
}

/// Compares a prediction of the reference's logits file, (n_vocab) log-probabilities as
/// [`PackedLogProbs::decode`](crate::logits_file::PackedLogProbs::decode) gives them, with another's logits (n_vocab).
///
/// Source: `log_softmax` of five arguments.
pub fn compare_packed(log_probs: &[f32], other: &[f32], token: usize, k: usize) -> Position {
    let q = LogSoftmax::of(other);
    let (mut kl, mut top) = (0.0f64, 0);
    let mut most_likely = Vec::with_capacity(k);
    top_k(log_probs, k, &mut most_likely);
    for (index, (&log_p, &logit)) in log_probs.iter().zip(other).enumerate() {
        if log_p > log_probs[top] {
            top = index;
        }
        // Here ln p is known to 16 bits, so that it does not add up to 1 any more and no shift can leave the sum.
        if log_p > LEAST_LOG_P {
            kl += f64::from(exp(log_p)) * (f64::from(log_p) - q.log_prob(logit));
        }
    }
    Position {
        nll_base: -f64::from(log_probs[token]),
        nll: -q.log_prob(other[token]),
        kl,
        same_top: top == q.top,
        shared_top_k: n_shared(&most_likely, other),
    }
}

/// Resolution of 16 bits: the reference's file clips log-probabilities 16 below the largest. The probability
/// mass left out is at most n_vocab * exp(-16), about 0.01 for 100,000 tokens.
const LEAST_LOG_P: f32 = -16.0;

/// Number of the base's most likely tokens that are among as many of the other's.
fn n_shared(top: &[(f32, u32)], other: &[f32]) -> u32 {
    let mut other_top = Vec::with_capacity(top.len());
    top_k(other, top.len(), &mut other_top);
    top.iter().filter(|(_, token)| other_top.iter().any(|(_, other)| other == token)).count() as u32
}

/// Percentiles: the values below which a given share of all values is.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say which percentile it is")]
pub struct Quantiles {
    pub maximum: f64,
    pub p99_9: f64,
    pub p99: f64,
    pub p95: f64,
    pub p90: f64,
    pub p75: f64,
    pub median: f64,
    pub p25: f64,
    pub p10: f64,
    pub p5: f64,
    pub p1: f64,
    pub p0_1: f64,
    pub minimum: f64,
}

impl Quantiles {
    /// Quantiles of values in any order; NaN for no values.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Quantiles {
        let mut sorted: Vec<f64> = values.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let at = |fraction| percentile(&sorted, fraction);
        Quantiles {
            maximum: at(1.0),
            p99_9: at(0.999),
            p99: at(0.99),
            p95: at(0.95),
            p90: at(0.9),
            p75: at(0.75),
            median: at(0.5),
            p25: at(0.25),
            p10: at(0.1),
            p5: at(0.05),
            p1: at(0.01),
            p0_1: at(0.001),
            minimum: at(0.0),
        }
    }

    /// The percentiles with their names, the largest first.
    pub fn named(&self) -> [(&'static str, f64); 13] {
        [
            ("maximum", self.maximum),
            ("99.9 %", self.p99_9),
            ("99 %", self.p99),
            ("95 %", self.p95),
            ("90 %", self.p90),
            ("75 %", self.p75),
            ("median", self.median),
            ("25 %", self.p25),
            ("10 %", self.p10),
            ("5 %", self.p5),
            ("1 %", self.p1),
            ("0.1 %", self.p0_1),
            ("minimum", self.minimum),
        ]
    }
}

/// All positions together.
///
/// Source: `kl_divergence`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Comparison {
    /// Predictions compared.
    pub n_positions: usize,
    /// Perplexity of the base.
    pub base_perplexity: Estimate,
    /// Perplexity of the other.
    pub perplexity: Estimate,
    /// Logarithm of the other's perplexity by the base's: its error is smaller than that of
    /// either, because the two go together.
    pub ln_perplexity_ratio: Estimate,
    /// The other's perplexity by the base's.
    pub perplexity_ratio: Estimate,
    /// The other's perplexity less the base's.
    pub perplexity_difference: Estimate,
    /// Correlation of the log-likelihoods.
    pub correlation: f64,
    /// Mean divergence in nats.
    pub kl: Estimate,
    /// Distribution of the divergence.
    pub kl_quantiles: Quantiles,
    /// Mean change of the probability of the token that came.
    pub p_diff: Estimate,
    /// Its root mean square.
    pub p_diff_rms: Estimate,
    /// Its distribution.
    pub p_diff_quantiles: Quantiles,
    /// Share of positions where the most likely token is the same.
    pub same_top: Estimate,
    /// The `k` of the next.
    pub k: usize,
    /// Mean share of the base's `k` most likely tokens that are among the other's.
    pub same_top_k: Estimate,
}

impl Comparison {
    /// Sums up.
    pub fn of(positions: &[Position], k: usize) -> Comparison {
        let mean = |value: fn(&Position) -> f64| Estimate::mean(positions.iter().map(value));
        let (base, other) = (mean(|p| p.nll_base), mean(|p| p.nll));
        // With x and y the mean nll of the other and of the base: ln(PPL / PPL_base) = x - y, and
        //   Var(x - y) = Var(x) + Var(y) - 2 Cov(x, y).
        // Both models find the same tokens hard, so Cov is nearly as large as the variances and the error of the
        // ratio is far smaller than that of either perplexity.
        let covariance = covariance_of_means(positions.iter().map(|p| (p.nll, p.nll_base)));
        let error_of_difference = |a: f64, b: f64, covariance: f64| {
            // Rounding may leave a little less than nothing.
            (a * a + b * b - 2.0 * covariance).max(0.0).sqrt()
        };
        let ln_ratio = Estimate {
            value: other.value - base.value,
            error: error_of_difference(other.error, base.error, covariance),
        };
        let (base_perplexity, perplexity) = (base.exp(), other.exp());
        // d(exp x - exp y) = exp(x) dx - exp(y) dy, so the covariance gets the factor exp(x) exp(y); the factors of
        // the variances are in the errors of the perplexities already.
        let perplexity_difference = Estimate {
            value: perplexity.value - base_perplexity.value,
            error: error_of_difference(
                perplexity.error,
                base_perplexity.error,
                perplexity.value * base_perplexity.value * covariance,
            ),
        };
        // Pearson's r = Cov(x, y) / (sd(x) sd(y)); the errors are the standard deviations of the means.
        let both = base.error * other.error;
        Comparison {
            n_positions: positions.len(),
            base_perplexity,
            perplexity,
            ln_perplexity_ratio: ln_ratio,
            perplexity_ratio: ln_ratio.exp(),
            perplexity_difference,
            correlation: if both > 0.0 { covariance / both } else { 0.0 },
            kl: mean(|p| p.kl),
            kl_quantiles: Quantiles::of(positions.iter().map(|p| p.kl)),
            p_diff: mean(Position::p_diff),
            p_diff_rms: mean(|p| p.p_diff().powi(2)).sqrt(),
            p_diff_quantiles: Quantiles::of(positions.iter().map(Position::p_diff)),
            same_top: Estimate::share(positions.iter().filter(|p| p.same_top).count(), positions.len()),
            k,
            same_top_k: Estimate::mean(positions.iter().map(|p| f64::from(p.shared_top_k) / k.max(1) as f64)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn divergence_of_two_coins() {
        // p = (3/4, 1/4), q = (1/2, 1/2): 3/4 ln(3/2) + 1/4 ln(1/2).
        let position = compare_logits(&[3f32.ln(), 0.0], &[5.0, 5.0], 1, 1);
        assert!((position.kl - (0.75 * 1.5f64.ln() - 0.25 * 2f64.ln())).abs() < 1e-7, "{position:?}");
        assert!((position.nll_base - 4f64.ln()).abs() < 1e-7 && (position.nll - 2f64.ln()).abs() < 1e-7);
        assert!((position.p_diff() - 0.25).abs() < 1e-7);
        assert!(position.same_top && position.shared_top_k == 1);
    }

    #[test]
    fn positions_round_trip() {
        for (kl, same_top, shared_top_k) in [(0.25, true, 0), (-1e-300, false, u32::MAX)] {
            let position = Position { nll_base: 1.5, nll: 1e300, kl, same_top, shared_top_k };
            assert_eq!(Position::from_bytes(&position.to_bytes()), position);
        }
    }

    #[test]
    fn equal_and_shifted_logits_do_not_diverge() {
        let base = [1.0f32, -2.0, 0.5, 30.0];
        let same = compare_logits(&base, &base, 2, 2);
        assert_eq!((same.kl, same.p_diff(), same.shared_top_k), (0.0, 0.0, 2));
        let shifted = compare_logits(&base, &base.map(|logit| logit + 8.0), 2, 2);
        assert!(shifted.kl.abs() < 1e-12, "{shifted:?}");
    }
}

//! Logarithms of probabilities from logits.

use crate::ops::log_sum_exp;

/// What turns the logits of one position into log-probabilities: `ln p_i = logit_i - shift`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LogSoftmax {
    /// The largest logit.
    pub max: f32,
    /// The smallest logit.
    pub min: f32,
    /// The first token of the largest logit.
    pub top: usize,
    /// `ln` of the sum of `exp(logit - max)`: 0 where one token has it all.
    pub log_sum: f64,
}

impl LogSoftmax {
    /// Of the logits of one position, (n_vocab); there must be one at least.
    pub fn of(logits: &[f32]) -> LogSoftmax {
        // ln p_i = a_i - ln sum_j exp(a_j) = a_i - (max + ln sum_j exp(a_j - max)): no term overflows, and the largest
        // is exp(0) = 1, so the logarithm is never that of 0.
        let (max, log_sum) = log_sum_exp(logits);
        let min = logits.iter().copied().fold(f32::INFINITY, f32::min);
        let top = logits.iter().position(|logit| *logit == max).unwrap_or(0);
        LogSoftmax { max, min, top, log_sum }
    }

    /// What is taken from a logit to get the logarithm of its probability.
    pub fn shift(&self) -> f64 {
        f64::from(self.max) + self.log_sum
    }

    /// The logarithm of the probability of the token whose logit this is.
    pub fn log_prob(&self, logit: f32) -> f64 {
        f64::from(logit) - self.shift()
    }
}

/// The tokens of the `k` largest values, in no order. Where values are equal the first counts.
pub(super) fn top_k(values: &[f32], k: usize, kept: &mut Vec<(f32, u32)>) {
    kept.clear();
    for (token, &value) in (0u32..).zip(values) {
        if kept.len() < k {
            kept.push((value, token));
            kept.sort_by(|a, b| b.0.total_cmp(&a.0));
        } else if kept.last().is_some_and(|last| value > last.0) {
            // Kept values fall; the new one goes behind those that equal it, so the first of equals stays first. Few
            // of a vocabulary come here, so that insertion costs less than a heap.
            kept.pop();
            let at = kept.partition_point(|other| other.0 >= value);
            kept.insert(at, (value, token));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logits_of_known_probabilities() {
        // 1/8, 4/8, 3/8, all shifted.
        let logits = [1.0f32, 4.0, 3.0].map(|p| p.ln() + 100.0);
        let softmax = LogSoftmax::of(&logits);
        assert_eq!((softmax.top, softmax.min, softmax.max), (1, logits[0], logits[1]));
        for (logit, p) in logits.iter().zip([0.125f64, 0.5, 0.375]) {
            assert!((softmax.log_prob(*logit).exp() - p).abs() < 1e-5);
        }
        assert_eq!(LogSoftmax::of(&[7.0]).log_sum, 0.0);
    }

    #[test]
    fn the_largest_are_kept_and_the_first_of_equals() {
        let mut kept = Vec::new();
        top_k(&[3.0, 1.0, 3.0, 9.0, 3.0, 2.0], 3, &mut kept);
        assert_eq!(kept, [(9.0, 3), (3.0, 0), (3.0, 2)]);
        top_k(&[1.0, 2.0], 5, &mut kept);
        assert_eq!(kept.len(), 2);
    }
}

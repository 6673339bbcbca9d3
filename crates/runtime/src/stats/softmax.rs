//! Logarithms of probabilities from logits.

use crate::ops::{log_sum_exp, smallest, vectorize};

/// Converts the logits of one position to log-probabilities: `ln p_i = logit_i - shift`.
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
    /// From the logits of one position, (n_vocab); there must be at least one.
    pub fn of(logits: &[f32]) -> LogSoftmax {
        // ln p_i = a_i - ln sum_j exp(a_j) = a_i - (max + ln sum_j exp(a_j - max)): no term overflows, and the largest
        // is exp(0) = 1, so the logarithm is never that of 0.
        let (max, log_sum) = log_sum_exp(logits);
        let min = vectorize(
            #[inline(always)]
            || smallest(logits),
        );
        let top = first_with(logits, |logit| logit == max).unwrap_or(0);
        LogSoftmax { max, min, top, log_sum }
    }

    /// Difference between a logit and the logarithm of its probability.
    pub fn shift(&self) -> f64 {
        f64::from(self.max) + self.log_sum
    }

    /// The logarithm of the probability of the token whose logit this is.
    pub fn log_prob(&self, logit: f32) -> f64 {
        f64::from(logit) - self.shift()
    }
}

/// Values that are looked at together.
const TOGETHER: usize = 64;

/// The first value of which something holds. Nearly always it holds of none of many, which a loop without an exit tells sooner.
#[inline(always)]
fn first_with(values: &[f32], holds: impl Fn(f32) -> bool) -> Option<usize> {
    let (chunks, rest) = values.as_chunks::<TOGETHER>();
    let chunk = vectorize(
        #[inline(always)]
        || chunks.iter().position(|chunk| chunk.iter().fold(false, |any, value| any | holds(*value))),
    );
    // Only here is the place among the values wanted.
    let (first, part) = match chunk {
        Some(at) => (at * TOGETHER, &chunks[at][..]),
        None => (values.len() - rest.len(), rest),
    };
    part.iter().position(|value| holds(*value)).map(|at| first + at)
}

/// The tokens of the `k` largest values, in no order. Where values are equal the first counts.
pub(super) fn top_k(values: &[f32], k: usize, top: &mut Vec<(f32, u32)>) {
    top.clear();
    if k == 0 {
        return;
    }
    for (token, &value) in (0u32..).zip(values).take(k) {
        top.push((value, token));
    }
    top.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut at = top.len();
    // Few of a vocabulary are larger than the last that is kept, so that insertion costs less than a heap.
    while let Some(last) = top.last()
        && let Some(next) = first_with(&values[at..], |value| value > last.0)
    {
        at += next;
        // StateSize values are in descending order; the new one goes after its equals, so the first of equals
        // stays first.
        top.pop();
        let place = top.partition_point(|other| other.0 >= values[at]);
        top.insert(place, (values[at], at as u32));
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn softmax_of_known_probabilities() {
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
    fn top_k_keeps_first_of_equals() {
        let mut top = Vec::new();
        top_k(&[3.0, 1.0, 3.0, 9.0, 3.0, 2.0], 3, &mut top);
        assert_eq!(top, [(9.0, 3), (3.0, 0), (3.0, 2)]);
        top_k(&[1.0, 2.0], 5, &mut top);
        assert_eq!(top.len(), 2);
        top_k(&[1.0, 2.0], 0, &mut top);
        assert!(top.is_empty());
    }

    #[test]
    fn top_k_matches_sort() {
        let values: Vec<f32> = (0..5000).map(|i| (gguf_testkit::mix(3, i) % 700) as f32).collect();
        let mut sorted: Vec<(f32, u32)> = values.iter().copied().zip(0..).collect();
        sorted.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let mut top = Vec::new();
        for k in [1, 10, 100] {
            top_k(&values, k, &mut top);
            assert_eq!(top, sorted[..k]);
        }
        let softmax = LogSoftmax::of(&values);
        assert_eq!((softmax.top as u32, softmax.max, softmax.min), (sorted[0].1, sorted[0].0, 0.0));
    }
}

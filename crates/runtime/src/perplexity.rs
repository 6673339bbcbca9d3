//! Perplexity by the reference's definition.
//!
//! ```text
//! nll_i = -ln p(token i+1 | tokens of the chunk up to i)      in nats, over the counted positions
//! ppl   = exp(mean nll)
//! error = ppl * sqrt((mean nll^2 - (mean nll)^2) / (n - 1))   one standard error
//! ```
//!
//! Source: `perplexity` and `perplexity_v2` in `tools/perplexity/perplexity.cpp` of llama.cpp
//! (llama-cpp-python 0.3.36). It rounds activations before it multiplies, and keeps keys and values in f16;
//! here both stay f32, so results differ slightly, unless [`Activations::Rounded`](crate::Activations) is
//! used.

use std::ops::Range;

use rayon::prelude::*;

use crate::{
    Error, Model,
    chunks::{Chunk, LogitBatches, Settings, Target, text_chunks},
    nonfinite::not_finite_prediction,
};

/// Results so far.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Perplexity {
    /// Chunks measured.
    pub n_chunks: usize,
    /// Predictions counted.
    pub count: usize,
    /// Sum of the negative logarithms of the probabilities, in nats.
    pub sum: f64,
    /// Sum of their squares.
    pub sum_squares: f64,
}

impl Perplexity {
    /// The mean negative logarithm of the probability, in nats.
    pub fn mean(&self) -> f64 {
        self.sum / self.count as f64
    }

    /// `exp` of the mean.
    pub fn value(&self) -> f64 {
        libm::exp(self.mean())
    }

    /// The standard error of [`Perplexity::value`], if there are enough predictions for one.
    pub fn error(&self) -> Option<f64> {
        let n = self.count as f64;
        // Var = E[x^2] - E[x]^2. The mean of n values has the variance Var / n; n - 1 in place of n makes the
        // estimate from a sample unbiased. d exp(x) = exp(x) dx carries the error over to the perplexity.
        let variance = self.sum_squares / n - self.mean() * self.mean();
        (self.count > 1 && variance > 0.0).then(|| (variance / (n - 1.0)).sqrt() * self.value())
    }

    /// Counts a prediction by the natural logarithm of its probability.
    pub fn add(&mut self, log_probability: f64) {
        self.count += 1;
        self.sum -= log_probability;
        self.sum_squares += log_probability * log_probability;
    }
}

/// Measures the perplexity of a text's tokens (including special tokens); `watch` sees the results after
/// every chunk.
///
/// # Errors
/// As [`text_chunks`], [`Model::need_next_token`] and [`Model::run`]; [`Error::NotFiniteResult`].
pub fn measure(
    model: &Model,
    tokens: &[u32],
    settings: &Settings,
    watch: &mut dyn FnMut(&Perplexity),
) -> Result<Perplexity, Error> {
    model.need_next_token()?;
    let chunks = text_chunks(model, tokens, settings)?;
    let mut perplexity = Perplexity::default();
    predict(model, &chunks, 0..chunks.len(), &mut |target, log_probability| {
        perplexity.add(log_probability);
        if target.is_last {
            perplexity.n_chunks += 1;
            watch(&perplexity);
        }
    })?;
    Ok(perplexity)
}

/// Runs those in `range` of a text's chunks; `found` gets each prediction in the order of the text with the natural logarithm of
/// its probability.
///
/// # Errors
/// As [`Model::need_next_token`] and [`Model::run`]; [`Error::NotFiniteResult`].
pub fn predict(
    model: &Model,
    chunks: &[Chunk],
    range: Range<usize>,
    found: &mut dyn FnMut(&Target, f64),
) -> Result<(), Error> {
    model.need_next_token()?;
    let n_vocab = model.n_vocab();
    let mut logits = Vec::new();
    let mut batches = LogitBatches::new(vec![model], chunks, range);
    while let Some(batch) = batches.next(None)? {
        batch.logits(0, None, &mut logits)?;
        let targets: Vec<Target> = batch.targets().collect();
        // Rows are independent; results are summed in text order, so the sum does not depend on the number of
        // threads.
        let log_probabilities: Vec<f64> = model.install(|| {
            let rows = logits.par_chunks(n_vocab).zip(&targets);
            rows.map(|(row, target)| log_probability(row, target.token)).collect()
        });
        for (target, log_probability) in targets.iter().zip(log_probabilities) {
            if !log_probability.is_finite() {
                return Err(not_finite_prediction(model, target));
            }
            found(target, log_probability);
        }
    }
    Ok(())
}

/// The natural logarithm of the probability that a row of logits gives to a token:
/// `ln p_t = logit_t - max - ln(sum_i exp(logit_i - max))`. Taking the maximum off first keeps `exp` from
/// overflowing.
pub fn log_probability(row: &[f32], token: u32) -> f64 {
    let (max, log_sum) = crate::ops::log_sum_exp(row);
    f64::from(row[token as usize] - max) - log_sum
}

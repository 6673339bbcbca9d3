//! Multiple-choice tasks in the reference's file formats: which of several endings is the most likely?
//!
//! There is one file for each format (`hellaswag`, `winogrande`, `multiple_choice`); the common part is here:
//! sequences with a common beginning, and the likelihood of the tokens after it.
//!
//! Source: `hellaswag_score`, `winogrande_score` and `multiple_choice_score` in
//! `tools/perplexity/perplexity.cpp` of llama.cpp as vendored in llama-cpp-python 0.3.36. It puts the common
//! part of the endings into one sequence; here every ending is a separate sequence, with the same
//! predictions.

mod hellaswag;
mod multiple_choice;
mod random;
mod winogrande;

use gguf_tokenizer::Encoder;
use serde::Serialize;

use crate::{
    Error, Model, Sequence,
    nonfinite::not_finite,
    stats::{Estimate, LogSoftmax},
};

pub use hellaswag::HellaSwag;
pub use multiple_choice::MultipleChoice;
pub use winogrande::Winogrande;

/// A file of tasks.
pub trait Tasks {
    /// Tasks that were selected.
    fn n_tasks(&self) -> usize;

    /// Answers the task at `index`, from 0.
    fn answer(&self, index: usize, model: &Model) -> Result<Answer, Error>;
}

/// A model's answer to one task.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Answer {
    /// Mean log-likelihood of each ending, by tokens, in nats.
    pub scores: Vec<f64>,
    /// The ending with the best score, from 0.
    pub chosen: usize,
    /// True if the answer is correct.
    pub is_right: bool,
    /// Tokens of the longest text that was run.
    #[serde(skip)]
    pub n_tokens: usize,
}

/// The accuracy of a model.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Score {
    /// Tasks answered.
    pub n_tasks: usize,
    /// Tasks answered rightly.
    pub n_right: usize,
    /// Share of right answers.
    pub accuracy: f64,
    /// Its standard error.
    pub error: f64,
    /// Bounds of the share by Wilson's interval at 95 %.
    pub interval: [f64; 2],
    /// The expected share of random answers.
    pub chance: f64,
}

impl Score {
    /// Score of all answers so far.
    pub fn of(answers: &[Answer]) -> Score {
        let n_right = answers.iter().filter(|answer| answer.is_right).count();
        let share = Estimate::share(n_right, answers.len());
        let n_endings: usize = answers.iter().map(|answer| answer.scores.len()).sum();
        let chance = if n_endings == 0 { 0.0 } else { answers.len() as f64 / n_endings as f64 };
        Score {
            n_tasks: answers.len(),
            n_right,
            accuracy: share.value,
            error: share.error,
            interval: wilson(share.value, answers.len()),
            chance,
        }
    }
}

/// Difference of the accuracies of two models on the same tasks: that of `other` less that of `base`, from -1 to 1.
///
/// The error is that of the mean of paired differences. Both models find the same tasks hard, so it is smaller than the errors
/// of the accuracies suggest.
pub fn accuracy_difference(base: &[Answer], other: &[Answer]) -> Estimate {
    let right = |answer: &Answer| f64::from(u8::from(answer.is_right));
    Estimate::mean_of_few(base.iter().zip(other).map(|(base, other)| right(other) - right(base)))
}

/// The bounds within which the true share lies with 95 %, for a share found among `n`.
fn wilson(share: f64, n: usize) -> [f64; 2] {
    const Z: f64 = 1.959_963_984_54;
    if n == 0 {
        return [0.0, 1.0];
    }
    // Wilson's interval, with p the share found:
    //   (p + z^2/2n +- z sqrt(p (1 - p) / n + z^2/4n^2)) / (1 + z^2/n)
    // `z` here is z^2/n; the root is written with that.
    let n = n as f64;
    let z = Z * Z / n;
    let half = z * (n * (4.0 * share * (1.0 - share) + z)).sqrt() / (Z + Z);
    [(share + z * 0.5 - half) / (1.0 + z), (share + z * 0.5 + half) / (1.0 + z)]
}

/// Sequences of tokens and the length of their common beginning.
struct Sequences {
    tokens: Vec<Vec<u32>>,
    n_shared: usize,
}

impl Sequences {
    /// Tokens of the longest text.
    fn longest(&self) -> usize {
        self.tokens.iter().map(Vec::len).max().unwrap_or(0)
    }

    /// Sequences of texts, tokenized with the tokens that start a text.
    fn new(tokenizer: &Encoder, texts: &[Vec<u8>]) -> Result<Sequences, Error> {
        let tokens: Vec<Vec<u32>> =
            texts.iter().map(|text| tokenizer.encode(text, true, false)).collect::<Result<_, _>>()?;
        let shortest = tokens.iter().map(Vec::len).min().unwrap_or(0);
        let is_same = |at: &usize| tokens.iter().all(|sequence| sequence[*at] == tokens[0][*at]);
        let n_shared = (0..shortest).take_while(is_same).count();
        Ok(Sequences { tokens, n_shared })
    }

    /// Logits at the last shared token and at every later token, for each sequence.
    fn run(&self, model: &Model) -> Result<Vec<Logits>, Error> {
        model.need_next_token()?;
        // The logits at the last shared token predict the first token that differs.
        let first = self.n_shared.saturating_sub(1);
        let sequences: Vec<Sequence<'_>> =
            self.tokens.iter().map(|tokens| Sequence { tokens, outputs: first..tokens.len() }).collect();
        let hidden = model.run(&sequences, None)?;
        let n_vocab = model.n_vocab();
        let logits = (0..sequences.len()).map(|sequence| {
            let rows = hidden.rows_of(sequence);
            let mut values = vec![0.0; rows.len() * n_vocab];
            model.logits(&hidden, rows, None, &mut values)?;
            Ok(Logits { first, n_vocab, values })
        });
        logits.collect()
    }
}

/// Predictions at some positions of a sequence.
struct Logits {
    /// The position of the first prediction.
    first: usize,
    n_vocab: usize,
    /// (n_positions, n_vocab).
    values: Vec<f32>,
}

impl Logits {
    /// The logarithm of the probability that `token` follows position `at`, in f32 as the
    /// reference has it.
    fn log_prob(&self, at: usize, token: u32) -> f32 {
        let row = &self.values[(at - self.first) * self.n_vocab..][..self.n_vocab];
        LogSoftmax::of(row).log_prob(row[token as usize]) as f32
    }

    /// The mean log-likelihood of the tokens of `sequence` from `start` on.
    fn mean_log_prob(&self, sequence: &[u32], start: usize) -> f64 {
        // A mean and not a sum: endings differ in length, and a longer one has a smaller sum only for this reason.
        let log_probs = (start..sequence.len()).map(|at| f64::from(self.log_prob(at - 1, sequence[at])));
        log_probs.sum::<f64>() / (sequence.len() - start) as f64
    }
}

/// The first of the largest.
fn largest(scores: &[f64]) -> usize {
    let mut best = 0;
    for (index, score) in scores.iter().enumerate() {
        if *score > scores[best] {
            best = index;
        }
    }
    best
}

/// The most likely of several texts with a common beginning.
fn likeliest(texts: &[Vec<u8>], task: usize, model: &Model) -> Result<(Vec<f64>, usize, usize), Error> {
    let sequences = Sequences::new(model.tokenizer(), texts)?;
    let n_shared = sequences.n_shared;
    // Without a shared token nothing predicts the first token of an ending; an ending without tokens has no score.
    if n_shared == 0 || sequences.tokens.iter().any(|tokens| tokens.len() == n_shared) {
        return Err(Error::Task {
            task,
            problem: "one ending is a prefix of another, or there is no common context",
        });
    }
    let logits = sequences.run(model)?;
    let scores: Vec<f64> = logits
        .iter()
        .zip(&sequences.tokens)
        .map(|(logits, tokens)| logits.mean_log_prob(tokens, n_shared))
        .collect();
    check_finite(&scores, task, model)?;
    let chosen = largest(&scores);
    Ok((scores, chosen, sequences.longest()))
}

/// Fails with [`Error::NotFiniteResult`] if a score is not finite: every comparison with it would be false,
/// and the first ending would win.
fn check_finite(scores: &[f64], task: usize, model: &Model) -> Result<(), Error> {
    if scores.iter().all(|score| score.is_finite()) {
        return Ok(());
    }
    Err(not_finite(model, format!("task {}", task + 1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_match_published_values() {
        // Newcombe 1998, method 3: 81 of 263.
        let [low, high] = wilson(81.0 / 263.0, 263);
        assert!((low - 0.2553).abs() < 5e-5 && (high - 0.3662).abs() < 5e-5, "{low} {high}");
        assert_eq!(wilson(0.5, 0), [0.0, 1.0]);
    }

    #[test]
    fn scores_count_correct_answers() {
        let answer = |is_right| Answer { scores: vec![0.0; 4], chosen: 0, is_right, n_tokens: 1 };
        let score = Score::of(&[answer(true), answer(false), answer(true), answer(true)]);
        assert_eq!((score.n_right, score.accuracy, score.chance), (3, 0.75, 0.25));
        assert_eq!(largest(&[-2.0, -1.0, -1.0]), 1);
    }

    #[test]
    fn difference_of_accuracies_is_paired() {
        let answers = |right: [bool; 16]| {
            right.map(|is_right| Answer { scores: vec![0.0; 2], chosen: 0, is_right, n_tokens: 1 })
        };
        let base = answers(std::array::from_fn(|i| i < 8));
        // Two answers become wrong, one becomes right: mean -1/16, variance 3/16 - 1/256, by n - 1 = 15.
        let other = answers(std::array::from_fn(|i| (i < 8 && i > 1) || i == 12));
        let found = accuracy_difference(&base, &other);
        assert_eq!(found.value, -1.0 / 16.0);
        assert!((found.error - ((3.0 / 16.0 - 1.0 / 256.0) / 15.0f64).sqrt()).abs() < 1e-15);
        assert!(found.error < Score::of(&other).error);
        assert_eq!(accuracy_difference(&base, &base), Estimate::default());
    }
}

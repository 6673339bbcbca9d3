//! Perplexity by the reference's definition.
//!
//! The text is cut into windows of `context` tokens. The first token of each is replaced with the
//! token that begins texts, where the tokenizer adds one. What the model predicts from the middle of
//! a window on is counted, so that every counted token has half a window before it.
//!
//! Source: `perplexity` and `perplexity_v2` in `tools/perplexity/perplexity.cpp` of llama.cpp
//! (llama-cpp-python 0.3.36). It rounds activations before it multiplies, and keeps keys and values in f16; here both
//! stay f32, so figures differ slightly, unless [`Activations::Rounded`](crate::Activations) does as it does.

use std::ops::Range;

use rayon::prelude::*;

use crate::{Error, Model, Sequence};

/// How perplexity is measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Tokens in a window.
    pub context: usize,
    /// Windows to measure at most; none for all of the text.
    pub windows: Option<usize>,
    /// Tokens from one window to the next; none for windows that do not overlap. With a stride, windows
    /// are half a stride longer, rounded up to a multiple of 256, keep their first token, and only their last stride
    /// is counted.
    pub stride: Option<usize>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { context: 512, windows: None, stride: None }
    }
}

/// Figures so far.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Perplexity {
    /// Windows measured.
    pub windows: usize,
    /// Predictions counted.
    pub count: usize,
    /// Sum of the negative logarithms of the probabilities.
    pub sum: f64,
    /// Sum of their squares.
    pub sum_squares: f64,
}

impl Perplexity {
    /// The mean negative logarithm of the probability.
    pub fn mean(&self) -> f64 {
        self.sum / self.count as f64
    }

    /// `exp` of the mean.
    pub fn value(&self) -> f64 {
        self.mean().exp()
    }

    /// The standard error of [`Perplexity::value`], if there are enough predictions for one.
    pub fn error(&self) -> Option<f64> {
        let n = self.count as f64;
        let variance = self.sum_squares / n - self.mean() * self.mean();
        (self.count > 1 && variance > 0.0).then(|| (variance / (n - 1.0)).sqrt() * self.value())
    }

    /// Counts a prediction by the logarithm of its probability.
    pub fn add(&mut self, log_probability: f64) {
        self.count += 1;
        self.sum -= log_probability;
        self.sum_squares += log_probability * log_probability;
    }
}

/// A window of a text, and what is counted of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cut {
    /// Its tokens; the first is the one that begins texts, where the tokenizer adds one.
    pub tokens: Vec<u32>,
    /// The positions whose predictions are counted.
    pub counted: Range<usize>,
    /// The token that each of them should predict.
    pub targets: Vec<u32>,
}

impl Cut {
    /// What a model is to be run on.
    pub fn sequence(&self) -> Sequence<'_> {
        Sequence { tokens: &self.tokens, wanted: self.counted.clone() }
    }
}

/// The reference runs windows with a stride in whatever context it has, and makes contexts a multiple of this
/// (`llama_context::llama_context`).
const CONTEXT_STEP: usize = 256;

/// Cuts the tokens of a text (made with the special tokens added) into windows.
///
/// # Errors
/// [`Error::TooShort`] when there are fewer than two windows' worth of tokens.
pub fn cut(model: &Model, tokens: &[u32], settings: &Settings) -> Result<Vec<Cut>, Error> {
    let context = settings.context.max(4);
    let tokenizer = model.tokenizer();
    let bos = tokenizer.bos().filter(|_| tokenizer.adds_bos());
    let (len, step, counted, n_windows) = match settings.stride {
        None => (context, context, context / 2..context - 1, tokens.len() / context),
        Some(stride) => {
            let stride = stride.clamp(1, 2 * context - 2);
            let len = (context + stride / 2).next_multiple_of(CONTEXT_STEP);
            let n_windows = tokens.len().saturating_sub(len).div_ceil(stride);
            (len, stride, len - stride - 1..len - 1, n_windows)
        }
    };
    if tokens.len() < 2 * len {
        return Err(Error::TooShort { found: tokens.len(), needed: 2 * len });
    }
    let n_windows = settings.windows.map_or(n_windows, |wanted| wanted.min(n_windows));
    let cut = |i: usize| {
        let all = &tokens[i * step..i * step + len];
        let mut tokens = all.to_vec();
        // The reference's windows with a stride keep their first token.
        if let (Some(bos), None) = (bos, settings.stride) {
            tokens[0] = bos;
        }
        Cut { tokens, counted: counted.clone(), targets: all[counted.start + 1..=counted.end].to_vec() }
    };
    Ok((0..n_windows).map(cut).collect())
}

/// Measures the perplexity of a text's tokens (made with the special tokens added); `watch` sees the
/// figures after every window.
///
/// # Errors
/// [`Error::TooShort`], and as [`Model::need_next_token`] and [`Model::run`].
pub fn measure(
    model: &Model,
    tokens: &[u32],
    settings: &Settings,
    watch: &mut dyn FnMut(&Perplexity),
) -> Result<Perplexity, Error> {
    model.need_next_token()?;
    let cuts = cut(model, tokens, settings)?;
    let n_vocab = model.n_vocab();
    let rows_at_once = model.logit_rows_at_once();
    let mut logits = Vec::new();
    let mut figures = Perplexity::default();
    for cuts in cuts.chunks(model.sequences_at_once(settings.context)) {
        let sequences: Vec<Sequence<'_>> = cuts.iter().map(Cut::sequence).collect();
        let hidden = model.run(&sequences, None)?;
        let targets: Vec<u32> = cuts.iter().flat_map(|cut| cut.targets.iter().copied()).collect();
        let mut found = Vec::with_capacity(targets.len());
        for first in (0..targets.len()).step_by(rows_at_once) {
            let rows = first..(first + rows_at_once).min(targets.len());
            logits.resize(rows.len() * n_vocab, 0.0);
            model.logits(&hidden, rows.clone(), None, &mut logits)?;
            found.extend(model.install(|| {
                let rows = logits.par_chunks(n_vocab).zip(&targets[rows]);
                rows.map(|(row, target)| log_probability(row, *target)).collect::<Vec<f64>>()
            }));
        }
        let mut found = found.into_iter();
        for cut in cuts {
            found.by_ref().take(cut.targets.len()).for_each(|log| figures.add(log));
            figures.windows += 1;
            watch(&figures);
        }
    }
    Ok(figures)
}

/// The natural logarithm of the probability that a row of logits gives to a token.
pub fn log_probability(row: &[f32], token: u32) -> f64 {
    let (max, log_sum) = crate::ops::log_sum_exp(row);
    f64::from(row[token as usize] - max) - log_sum
}

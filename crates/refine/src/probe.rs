//! What each matrix alone costs, or a few together: the divergence of the model from itself with them as a type makes them.
//!
//! The text runs a step at a time. What a matrix changes lies behind its step, so its probe begins with what the base left there:
//! the mean over all layers is half of a run. The predictions of the base are kept for as many positions as fit into
//! [`LOGIT_BYTES`].

use std::ops::Range;

use eval::{Between, Model, Steps, stats::Prediction};
use rayon::prelude::*;
use tensor::DType;

use crate::{Error, moments::batches as batches_of};

/// Bytes of the base's predictions.
const LOGIT_BYTES: usize = 256 << 20;

/// A matrix and what it is to be replaced with.
#[derive(Debug, Clone, PartialEq)]
pub struct Replacement {
    /// The type of the blocks.
    pub dtype: DType,
    /// The whole tensor, little-endian.
    pub blocks: Vec<u8>,
}

/// Who makes replacements, and is told how far it is.
pub trait Prober {
    /// What to put in the place of a matrix.
    ///
    /// # Errors
    /// Any, which ends the run.
    fn replacement(&mut self, tensor: &str) -> Result<Replacement, Error>;

    /// What the matrices of a probe cost together, as soon as it is known.
    ///
    /// # Errors
    /// Any, which ends the run.
    fn found(&mut self, tensors: &[String], cost: f64) -> Result<(), Error>;

    /// `done` of `of` probes are made. False ends the run.
    fn progress(&mut self, done: usize, of: usize) -> bool;
}

/// A batch of windows.
struct Batch<'a> {
    windows: Vec<&'a [u32]>,
    /// Rows that are compared.
    rows: Vec<usize>,
    /// What the base left before the current step.
    between: Between,
}

/// Measures the mean divergence, in nats, that the matrices of each of `probes` make together over windows behind their first eighths,
/// where little came before; `prober` is told of each.
///
/// # Errors
/// As [`Model::run`] and [`Model::replace`]; [`Error::Interrupted`], [`Error::NoTokens`], and what `prober` fails with.
pub fn probe(
    model: &Model,
    windows: &[Vec<u32>],
    probes: &[Vec<String>],
    prober: &mut dyn Prober,
) -> Result<(), Error> {
    model.need_next_token()?;
    if probes.is_empty() {
        return Ok(());
    }
    let steps = Steps::new(model)?;
    let mut batches = batches(model, &steps, windows)?;
    let of_base = |batch: &Batch<'_>| logits(&steps, model, batch, 0);
    let of_base: Vec<Vec<f32>> = batches.iter().map(of_base).collect::<Result<_, _>>()?;
    // What all probes are compared with is worked out once.
    let rows =
        |logits| <[f32]>::par_chunks(logits, model.n_vocab()).map(|row| Prediction::of(row, 1)).collect();
    let of_base: Vec<Vec<Prediction<'_>>> =
        model.install(|| of_base.iter().map(|it| rows(&it[..])).collect());
    let step_of = steps_of(model, steps.n_steps());
    let begins = |tensors: &Vec<String>| tensors.iter().map(|it| step_of(it)).min().unwrap_or(0);
    let begins: Vec<usize> = probes.iter().map(begins).collect();
    let mut n_done = 0;
    // One step more than there are: behind the last one only the output matrix is left.
    for step in 0..=steps.n_steps() {
        for (tensors, _) in probes.iter().zip(&begins).filter(|(_, begins)| **begins == step) {
            let mut replace = |tensor: &String| -> Result<(), Error> {
                let Replacement { dtype, blocks } = prober.replacement(tensor)?;
                Ok(model.replace(tensor, dtype, blocks)?)
            };
            let replaced = tensors.iter().try_for_each(&mut replace);
            let measured = replaced.and_then(|()| divergence(&steps, model, &batches, &of_base, step));
            model.restore();
            prober.found(tensors, measured?)?;
            n_done += 1;
            if !prober.progress(n_done, probes.len()) {
                return Err(Error::Interrupted);
            }
        }
        for batch in batches.iter_mut().filter(|_| step < steps.n_steps()) {
            let between = std::mem::take(&mut batch.between);
            batch.between = steps.run(step, &batch.windows, between, None)?;
        }
    }
    Ok(())
}

/// The step that a tensor takes part in first. What belongs to no layer counts from the beginning, but for the output matrix.
fn steps_of(model: &Model, n_steps: usize) -> impl Fn(&str) -> usize {
    let layer_of = |name: &str| name.strip_prefix("blk.")?.split_once('.')?.0.parse::<usize>().ok();
    let layers = model.file().tensors().filter_map(|(_, info)| layer_of(&info.name));
    let n_layers = layers.max().map_or(0, |last| last + 1);
    // Before the layers and behind them there is a step each, where a graph is cut; else there is one.
    let is_cut = n_steps == n_layers + 2;
    move |tensor| match layer_of(tensor) {
        _ if !is_cut => 0,
        Some(layer) => layer + 1,
        None if tensor == "output.weight" => n_steps,
        None => 0,
    }
}

fn batches<'a>(model: &Model, steps: &Steps<'_>, windows: &'a [Vec<u32>]) -> Result<Vec<Batch<'a>>, Error> {
    if windows.is_empty() || windows.iter().any(Vec::is_empty) {
        return Err(Error::NoTokens);
    }
    // Every so-manyth position, as many as there is memory for.
    let n_kept = (LOGIT_BYTES / (model.n_vocab().max(1) * size_of::<f32>())).max(1);
    let n_positions: usize = windows.iter().map(|window| compared(window).len()).sum();
    let stride = n_positions.div_ceil(n_kept);
    let batch = |of: Range<usize>| {
        let windows: Vec<&[u32]> = windows[of].iter().map(Vec::as_slice).collect();
        let (mut rows, mut first) = (Vec::new(), 0);
        for window in &windows {
            rows.extend(compared(window).step_by(stride).map(|row| first + row));
            first += window.len();
        }
        Batch { windows, rows, between: Between::default() }
    };
    Ok(batches_of(windows, steps.rows_at_once()).into_iter().map(batch).collect())
}

/// Positions of a window whose predictions are compared.
fn compared(window: &[u32]) -> Range<usize> {
    window.len() / 8..window.len()
}

/// What the model predicts at the rows of a batch, run from a step on: (rows, n_vocab).
fn logits(steps: &Steps<'_>, model: &Model, batch: &Batch<'_>, from: usize) -> Result<Vec<f32>, Error> {
    let mut between = batch.between.clone();
    for step in from..steps.n_steps() {
        between = steps.run(step, &batch.windows, between, None)?;
    }
    let hidden = steps.hidden(&between, &batch.rows);
    let mut out = vec![0.0; hidden.n_rows() * model.n_vocab()];
    model.logits(&hidden, 0..hidden.n_rows(), None, &mut out)?;
    Ok(out)
}

/// The mean divergence from `of_base`, the base's predictions for each batch, of the model as it is now.
fn divergence(
    steps: &Steps<'_>,
    model: &Model,
    batches: &[Batch<'_>],
    of_base: &[Vec<Prediction<'_>>],
    from: usize,
) -> Result<f64, Error> {
    let (mut sum, mut n_rows) = (0.0, 0);
    for (batch, of_base) in batches.iter().zip(of_base) {
        let other = logits(steps, model, batch, from)?;
        let rows = || of_base.par_iter().zip(other.par_chunks(model.n_vocab()));
        // In the order of the rows, whichever thread does them.
        let of_rows: Vec<f64> =
            model.install(|| rows().map(|(base, other)| base.compare(other, 0).kl).collect());
        sum += of_rows.iter().sum::<f64>();
        n_rows += of_rows.len();
    }
    Ok(sum / f64::from(u32::try_from(n_rows.max(1)).unwrap_or(u32::MAX)))
}

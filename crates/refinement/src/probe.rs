//! Sensitivity of single matrices: the KL divergence of the model from itself with one matrix, or a few,
//! quantized.
//!
//! The text runs one step at a time. A probe starts at the step of its matrix from the state that the base
//! left there, which halves the work on average. The base's logits are kept for the positions that fit into
//! [`LOGIT_BYTES`].

use std::ops::Range;

use gguf_runtime::{Between, Model, Steps, stats::Prediction};
use gguf_types::DType;
use rayon::prelude::*;

use crate::{Error, moments::batches as batches_of};

/// Memory for the base's logits, in bytes.
const LOGIT_BYTES: usize = 256 << 20;

/// A replacement for a matrix.
#[derive(Debug, Clone, PartialEq)]
pub struct Replacement {
    /// The type of the blocks.
    pub dtype: DType,
    /// Blocks of the tensor, little-endian.
    pub blocks: Vec<u8>,
}

/// Provides replacements and receives results.
pub trait Prober {
    /// Replacement for a matrix.
    ///
    /// # Errors
    /// Any error ends the run.
    fn replacement(&mut self, tensor: &str) -> Result<Replacement, Error>;

    /// Receives the cost of the matrices of a probe.
    ///
    /// # Errors
    /// Any error ends the run.
    fn found(&mut self, tensors: &[String], cost: f64) -> Result<(), Error>;

    /// Receives the progress: `done` of `of` probes. Returns false to end the run.
    fn progress(&mut self, done: usize, of: usize) -> bool;
}

struct Batch<'a> {
    chunks: Vec<&'a [u32]>,
    rows: Vec<usize>,
    /// State of the base before the current step.
    between: Between,
}

/// Measures the mean KL divergence, in nats, that each of `probes` causes. The first eighth of a chunk, which
/// has little context, is left out. `prober` receives each result.
///
/// # Errors
/// Those of [`Model::run`] and [`Model::replace`]; [`Error::Interrupted`], [`Error::NoTokens`], and errors of
/// `prober`.
pub fn probe(
    model: &Model,
    chunks: &[Vec<u32>],
    probes: &[Vec<String>],
    prober: &mut dyn Prober,
) -> Result<(), Error> {
    model.need_next_token()?;
    if probes.is_empty() {
        return Ok(());
    }
    let steps = Steps::new(model)?;
    let mut batches = batches(model, &steps, chunks)?;
    let base_logits = |batch: &Batch<'_>| logits(&steps, model, batch, 0);
    let base_logits: Vec<Vec<f32>> = batches.iter().map(base_logits).collect::<Result<_, _>>()?;
    // Computed once for all probes.
    let rows =
        |logits| <[f32]>::par_chunks(logits, model.n_vocab()).map(|row| Prediction::of(row, 1)).collect();
    let base_logits: Vec<Vec<Prediction<'_>>> =
        model.install(|| base_logits.iter().map(|logits| rows(&logits[..])).collect());
    let step_of = steps_of(model, steps.n_steps());
    let first_steps = |tensors: &Vec<String>| tensors.iter().map(|name| step_of(name)).min().unwrap_or(0);
    let first_steps: Vec<usize> = probes.iter().map(first_steps).collect();
    let mut n_done = 0;
    // One more step than the model has: the last one has only the output matrix.
    for step in 0..=steps.n_steps() {
        for (tensors, _) in probes.iter().zip(&first_steps).filter(|(_, first_steps)| **first_steps == step) {
            let mut replace = |tensor: &String| -> Result<(), Error> {
                let Replacement { dtype, blocks } = prober.replacement(tensor)?;
                Ok(model.replace(tensor, dtype, blocks)?)
            };
            let replaced = tensors.iter().try_for_each(&mut replace);
            let measured = replaced.and_then(|()| divergence(&steps, model, &batches, &base_logits, step));
            model.restore();
            prober.found(tensors, measured?)?;
            n_done += 1;
            if !prober.progress(n_done, probes.len()) {
                return Err(Error::Interrupted);
            }
        }
        for batch in batches.iter_mut().filter(|_| step < steps.n_steps()) {
            let between = std::mem::take(&mut batch.between);
            batch.between = steps.run(step, &batch.chunks, between, None)?;
        }
    }
    Ok(())
}

/// The first step that uses a tensor. Tensors outside the layers belong to the first step, except the output
/// matrix.
fn steps_of(model: &Model, n_steps: usize) -> impl Fn(&str) -> usize {
    let layer_of = |name: &str| gguf_types::layer_and_part(name).map(|(layer, _)| layer as usize);
    let layers = model.file().tensors().filter_map(|(_, info)| layer_of(&info.name));
    let n_layers = layers.max().map_or(0, |last| last + 1);
    // Graphs that can be cut have a step before and a step after the layers; others have one step.
    let is_cut = n_steps == n_layers + 2;
    move |tensor| match layer_of(tensor) {
        _ if !is_cut => 0,
        Some(layer) => layer + 1,
        None if tensor == "output.weight" => n_steps,
        None => 0,
    }
}

fn batches<'a>(model: &Model, steps: &Steps<'_>, chunks: &'a [Vec<u32>]) -> Result<Vec<Batch<'a>>, Error> {
    if chunks.is_empty() || chunks.iter().any(Vec::is_empty) {
        return Err(Error::NoTokens);
    }
    // Evenly spaced positions that fit into memory.
    let n_kept = (LOGIT_BYTES / (model.n_vocab().max(1) * size_of::<f32>())).max(1);
    let n_positions: usize = chunks.iter().map(|chunk| compared(chunk).len()).sum();
    let stride = n_positions.div_ceil(n_kept);
    let batch = |of: Range<usize>| {
        let chunks: Vec<&[u32]> = chunks[of].iter().map(Vec::as_slice).collect();
        let (mut rows, mut first) = (Vec::new(), 0);
        for chunk in &chunks {
            rows.extend(compared(chunk).step_by(stride).map(|row| first + row));
            first += chunk.len();
        }
        Batch { chunks, rows, between: Between::default() }
    };
    Ok(batches_of(chunks, steps.rows_at_once()).into_iter().map(batch).collect())
}

/// Positions of a chunk whose predictions are compared.
fn compared(chunk: &[u32]) -> Range<usize> {
    chunk.len() / 8..chunk.len()
}

/// Logits of a batch's rows, run from a step on: (rows, n_vocab).
fn logits(steps: &Steps<'_>, model: &Model, batch: &Batch<'_>, from: usize) -> Result<Vec<f32>, Error> {
    let mut between = batch.between.clone();
    for step in from..steps.n_steps() {
        between = steps.run(step, &batch.chunks, between, None)?;
    }
    let hidden = steps.hidden(&between, &batch.rows);
    let mut out = vec![0.0; hidden.n_rows() * model.n_vocab()];
    model.logits(&hidden, 0..hidden.n_rows(), None, &mut out)?;
    Ok(out)
}

/// Mean divergence of the current model from `base_logits`, the base's logits of each batch.
fn divergence(
    steps: &Steps<'_>,
    model: &Model,
    batches: &[Batch<'_>],
    base_logits: &[Vec<Prediction<'_>>],
    from: usize,
) -> Result<f64, Error> {
    let (mut sum, mut n_rows) = (0.0, 0);
    for (batch, base_logits) in batches.iter().zip(base_logits) {
        let other = logits(steps, model, batch, from)?;
        let rows = || base_logits.par_iter().zip(other.par_chunks(model.n_vocab()));
        // Summed in row order, for any number of threads.
        let row_kl: Vec<f64> =
            model.install(|| rows().map(|(base, other)| base.compare(other, 0).kl).collect());
        sum += row_kl.iter().sum::<f64>();
        n_rows += row_kl.len();
    }
    Ok(sum / f64::from(u32::try_from(n_rows.max(1)).unwrap_or(u32::MAX)))
}

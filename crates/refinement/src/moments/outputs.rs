//! Gram matrices of the gradients at the output of every matrix.
//!
//! For one matrix and token, `g` (n_rows) is the gradient of `-ln p` of all following tokens with respect to
//! the matrix's output there, for targets drawn from the model's own predictions. An error `E` of the weights
//! changes predictions by a KL divergence of about `1/2 tr(G E C E^T)`, with `G = E[g g^T]` (n_rows, n_rows)
//! and the input Hessian `C`, if inputs and gradients are independent. This is the Kronecker-factored Fisher
//! information, up to a factor.
//!
//! The text runs forward once, and the inputs of each layer are kept. Then the backward pass goes layer by
//! layer over the entire text. Memory contains the sums of one layer, a batch, and the layer inputs, which
//! are spilled to disk beyond [`Options::state_bytes`].
//!
//! Source: the Fisher information sketches of YAQA (Tseng et al., arXiv:2505.22988), in their simplest form.

use gguf_runtime::{Between, Model, Observer, Part, Steps};

use super::{
    Found, MomentsCache, Options, Plan, Texts, Watch,
    gatherer::Gatherer,
    n_rounds_of,
    plan::{PlannedInput, is_held, planned},
    states::{Stack, States, spill},
};
use crate::Error;

/// Rows per column up to which the outputs of a matrix are observed. Time grows with the square of the rows, and
/// outputs of wide feed-forward layers gain least (`docs/notes/quality.md`).
const MOST_ROWS_PER_COLUMN: u64 = 3;

impl Plan {
    /// Plans output gradients on top of this plan: sums over the rows of every matrix that sees every token,
    /// except the output matrix and matrices with more than three rows per column.
    ///
    /// # Errors
    /// [`Error::Eval`] if the backward pass does not support the model.
    pub fn plan_outputs(&self, model: &Model, options: &Options) -> Result<Plan, Error> {
        let engine = Steps::new(model)?;
        engine.need_backward()?;
        let last = engine.n_steps().saturating_sub(1);
        let rows = |(tensor, part): &(String, Part)| {
            let (_, info) = model.file().tensor(tensor)?;
            let n_rows = info.shape.dim(1);
            let is_wanted = *part == Part::Whole && n_rows <= MOST_ROWS_PER_COLUMN * info.shape.row_elems();
            is_wanted.then(|| PlannedInput { of: vec![(tensor.clone(), *part)], n_columns: n_rows as usize })
        };
        let steps = self.steps.iter().enumerate().map(|(index, step)| {
            let inputs = step.rounds.iter().flatten().chain(&step.too_wide);
            let outputs = inputs.flat_map(|input| &input.of).filter_map(rows);
            planned(if index < last { outputs.collect() } else { Vec::new() }, options)
        });
        let steps: Vec<_> = steps.collect();
        let bytes = |round: &Vec<PlannedInput>| round.iter().map(PlannedInput::gram_bytes).sum::<u64>();
        let rounds = || steps.iter().flat_map(|step| &step.rounds).map(bytes);
        let (gram_bytes, all_bytes) = (rounds().max().unwrap_or(0), rounds().sum::<u64>());
        // Layer inputs, and gradients of the same size.
        let state_bytes = self.state_bytes.saturating_mul(steps.len() as u64 + 1);
        Ok(Plan {
            gram_bytes,
            state_bytes,
            is_spilled: state_bytes > options.state_bytes,
            // A layer runs again, with a gradient for each activation.
            working_bytes: self.working_bytes.saturating_mul(2),
            file_bytes: all_bytes / 2,
            has_outputs: true,
            steps,
            batches: self.batches.clone(),
        })
    }
}

/// Collects gradient statistics for a plan from [`Plan::plan_outputs`], last step first, over the same training
/// and held-out tokens as [`super::gather`].
pub fn gather_outputs(
    model: &Model,
    texts: &Texts,
    options: &Options,
    plan: &Plan,
    mut cache: Option<&mut MomentsCache>,
    watch: &mut dyn Watch,
) -> Result<(), Error> {
    let engine = Steps::new(model)?;
    engine.need_backward()?;
    let has_none = |index: usize| plan.steps[index].rounds.iter().all(Vec::is_empty);
    let is_known: Vec<bool> = (0..plan.steps.len())
        .map(|index| cache.as_ref().is_some_and(|cache| cache.has(index, &plan.steps[index].rounds.concat())))
        .collect();
    // The backward pass stops at the first missing step.
    let first = (0..plan.steps.len()).find(|index| !is_known[*index] && !has_none(*index));
    let mut states = States::new(plan.batches.len(), plan.is_spilled).map_err(spill)?;
    let mut stack = Stack::new(plan.is_spilled).map_err(spill)?;
    let n_back: usize = first.map_or(0, |first| {
        (first..plan.steps.len()).map(|step| n_rounds_of(plan, step, is_known[step])).sum()
    });
    let n_batches = plan.batches.len();
    let (mut done, of) = (0, if first.is_some() { (n_back + 1) * n_batches } else { 0 });
    let chunks = texts.chunks();
    let mut step_done = |watch: &mut dyn Watch| {
        done += 1;
        if watch.progress(done, of) { Ok(()) } else { Err(Error::Interrupted) }
    };
    if first.is_some() {
        for (index, batch) in plan.batches.iter().enumerate() {
            let gradients = forward(&engine, chunks, batch.clone(), |step, between| {
                stack.put((step, index), between).map_err(spill)
            })?;
            states.put(index, gradients).map_err(spill)?;
            step_done(&mut *watch)?;
        }
        states.end_step().map_err(spill)?;
    }
    for step in (first.unwrap_or(0)..plan.steps.len()).rev() {
        let planned = &plan.steps[step];
        let mut written = None;
        let n_rounds = if first.is_some() { n_rounds_of(plan, step, is_known[step]) } else { 0 };
        for round in 0..n_rounds {
            let mut gatherer = (!is_known[step]).then(|| Gatherer::new(&planned.rounds[round], None));
            for (index, batch) in plan.batches.iter().enumerate() {
                let is_last = round + 1 == n_rounds;
                let sequences: Vec<&[u32]> = chunks[batch.clone()].iter().map(Vec::as_slice).collect();
                let entered = stack.get((step, index)).map_err(spill)?;
                let gradients = states.get(index, is_last).map_err(spill)?;
                let seen = gatherer.as_mut().map(|gatherer| {
                    let is_held = |chunk: usize| is_held(chunk, chunks.len(), options.held_every);
                    gatherer.begin(batch.clone().map(|chunk| (chunks[chunk].len(), is_held(chunk))));
                    gatherer as &mut dyn Observer
                });
                let next = engine.backward(step, &sequences, entered, gradients, seen)?;
                if let Some(gatherer) = &mut gatherer {
                    gatherer
                        .check(batch.clone(), sequences.iter().map(|sequence| sequence.len()))
                        .map_err(gradient_error)?;
                }
                if is_last {
                    states.put(index, next).map_err(spill)?;
                }
                step_done(&mut *watch)?;
            }
            let Some(gatherer) = gatherer else { continue };
            let (inputs, _) = gatherer.finish();
            if let (Some(cache), 0) = (&cache, round) {
                written = Some(cache.begin(step, &planned.rounds.concat(), &[])?);
            }
            if let Some(written) = &mut written {
                written.inputs(&inputs)?;
            }
            watch.found(Found { step, round, inputs })?;
        }
        states.end_step().map_err(spill)?;
        stack.forget(step);
        if let (Some(cache), Some(written)) = (&mut cache, written) {
            cache.finish(step, written)?;
        }
    }
    let Some(cache) = cache else { return Ok(()) };
    for (step, planned) in plan.steps.iter().enumerate().filter(|(step, _)| is_known[*step]) {
        for (round, planned) in planned.rounds.iter().enumerate() {
            watch.found(Found { step, round, inputs: cache.inputs(step, planned)? })?;
        }
    }
    Ok(())
}

/// Runs the chunks `batch`, passes what enters each step to `keep`, and returns the gradients of the loss.
fn forward(
    engine: &Steps<'_>,
    chunks: &[Vec<u32>],
    batch: std::ops::Range<usize>,
    mut keep: impl FnMut(usize, Between) -> Result<(), Error>,
) -> Result<Between, Error> {
    let sequences: Vec<&[u32]> = chunks[batch.clone()].iter().map(Vec::as_slice).collect();
    let mut between = Between::default();
    for step in 0..engine.n_steps() {
        let next = engine.run(step, &sequences, between.clone(), None)?;
        keep(step, std::mem::replace(&mut between, next))?;
    }
    let mut places = batch.flat_map(|chunk| (0..chunks[chunk].len()).map(move |token| (chunk, token)));
    // Rows come in order.
    let mut choose = |_: usize, p: &[f32]| {
        let (chunk, token) = places.next().unwrap_or_default();
        drawn(p, uniform(chunk as u64, token as u64))
    };
    Ok(engine.loss_back(&between, &mut choose)?)
}

fn gradient_error(error: Error) -> Error {
    match error {
        Error::NotFiniteInput { tensor, value, column, chunk, token } => {
            Error::NotFiniteGradient { tensor, value, row: column, chunk, token }
        }
        error => error,
    }
}

/// Samples a token from probabilities `p` with `u` from 0 to 1 (inverse transform).
fn drawn(p: &[f32], u: f64) -> usize {
    let mut sum = 0.0;
    for (token, p) in p.iter().enumerate() {
        sum += f64::from(*p);
        if u < sum {
            return token;
        }
    }
    // Rounding can leave the sum below 1.
    p.iter().rposition(|p| *p > 0.0).unwrap_or(0)
}

/// A pseudo-random number from 0 to 1 for a token of a chunk, the same in every run.
///
/// Source: the finalizer of SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number
/// generators", 2014).
fn uniform(chunk: u64, token: u64) -> f64 {
    let mut z = (chunk << 32 | token).wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^= z >> 31;
    (z >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_drawn_by_probability() {
        let p = [0.1, 0.0, 0.5, 0.4];
        let mut counts = [0; 4];
        for chunk in 0..40 {
            for token in 0..250 {
                counts[drawn(&p, uniform(chunk, token))] += 1;
            }
        }
        // Four standard deviations of 10,000 draws are at most 200.
        for (count, p) in counts.iter().zip(p) {
            assert!((f64::from(*count) - 1e4 * f64::from(p)).abs() <= 200.0, "{counts:?}");
        }
        assert_eq!((counts[1], drawn(&p, 0.999_999_999_9)), (0, 3));
        assert_eq!(drawn(&[0.5, 0.25, 0.0], 0.9), 1, "what is left over goes to the last that can be");
    }
}

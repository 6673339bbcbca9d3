//! Hessians of the inputs of every matrix of a model, collected layer by layer.
//!
//! The entire text runs through one layer, then through the next. Inputs of matrices are summed while a layer
//! runs, separately over training tokens and over held-out chunks, so that a choice made on the first can be
//! judged on the second. Memory contains the sums of one layer (or of a part, if they exceed
//! [`Options::gram_bytes`]: the layer then runs several times), a batch of activations, and the state between
//! two layers, which is spilled to disk beyond [`Options::state_bytes`]. [`Plan`] states the memory before
//! anything runs.
//!
//! Matrices with the same input share one sum. Sharing is observed at run time, not derived from names.
//!
//! Sums are bit-identical for any thread count: products of fixed blocks of rows, added in text order.

mod cache;
mod file;
mod gatherer;
mod outputs;
mod plan;
mod states;
mod texts;

use std::io;

use gguf_runtime::{Between, Model, Observer, Steps, importance::Collector};

pub use cache::MomentsCache;
use gatherer::Gatherer;
pub use outputs::gather_outputs;
pub(crate) use plan::batches;
use plan::is_held;
pub use plan::{Matrices, Plan, PlannedInput, PlannedStep};
use states::{States, spill};
pub use texts::Texts;

use crate::{Error, Gram};

/// Fewer training tokens per column give unreliable off-diagonal entries; rounding should then rely on the
/// diagonal.
pub const FEW_PER_COLUMN: f64 = 4.0;

/// Options for collecting Hessians.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Memory for the sums of several inputs, in bytes.
    pub gram_bytes: u64,
    /// Memory for the sums of one input that is processed separately, in bytes. Wider inputs have no Hessian.
    pub widest_bytes: u64,
    /// Memory for the state between two layers, in bytes.
    pub state_bytes: u64,
    /// One chunk in `held_every` is held out, the last of each group. For 0 or 1 no chunk is held out;
    /// otherwise at least one is, given two or more.
    pub held_every: usize,
    /// Minimum of training tokens per column of the widest input.
    pub least_per_column: f64,
    /// Also collect importance of the output matrix ([`Collector::new`]).
    pub with_output: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            gram_bytes: 1 << 30,
            // 32,768 columns.
            widest_bytes: 8 << 30,
            state_bytes: 512 << 20,
            held_every: 8,
            least_per_column: 0.25,
            with_output: false,
        }
    }
}

/// An input of one or more matrices.
#[derive(Debug, Clone, PartialEq)]
pub struct Input {
    /// Matrices with this input.
    pub of: Matrices,
    /// Sum over training tokens.
    pub fit: Gram,
    /// Sum over held-out tokens.
    pub held: Gram,
}

impl Input {
    /// Training tokens per column.
    pub fn tokens_per_column(&self) -> f64 {
        self.fit.n_tokens() as f64 / self.fit.n_columns().max(1) as f64
    }
}

/// Inputs of one step that were collected together.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// Step, from 0: before the layers, each layer, after the layers.
    pub step: usize,
    /// Round of the step, from 0.
    pub round: usize,
    /// Inputs in name order. Experts without tokens have no inputs.
    pub inputs: Vec<Input>,
}

/// Receives results and progress.
pub trait Watch {
    /// Receives completed inputs of a step.
    ///
    /// # Errors
    /// Any error ends the run.
    fn found(&mut self, found: Found) -> Result<(), Error>;

    /// Receives the progress: `done` batches of `of`, over all steps and rounds. Returns false to end the
    /// run.
    fn progress(&mut self, _done: usize, _of: usize) -> bool {
        true
    }
}

/// Summary of a run.
#[derive(Debug, Clone, Default)]
pub struct Summary {
    /// Importance over all tokens, equal to the result of a separate [`Collector`].
    pub importance: Collector,
    /// Inputs with fewer tokens per column than [`FEW_PER_COLUMN`], and their tokens per column; inputs
    /// without tokens are not listed.
    pub few: Vec<(Matrices, f64)>,
    /// Experts that received no training tokens.
    pub unreached: Vec<Matrices>,
    /// Inputs that are too wide for the allowed memory.
    pub too_wide: Vec<Matrices>,
    /// Inputs with columns that are always zero, and these columns.
    pub dead: Vec<(Matrices, Vec<usize>)>,
}

impl Summary {
    fn note(&mut self, inputs: &[Input]) {
        for input in inputs {
            if input.fit.n_tokens() == 0 {
                self.unreached.push(input.of.clone());
                continue;
            }
            let n = input.tokens_per_column();
            if n < FEW_PER_COLUMN {
                self.few.push((input.of.clone(), n));
            }
            let dead = input.fit.dead_columns();
            if !dead.is_empty() {
                self.dead.push((input.of.clone(), dead));
            }
        }
    }
}

/// Collects the Hessians of all inputs of a model, step by step, and passes them on. With a cache, present
/// steps are read from it and missing ones are written to it.
///
/// # Errors
/// Those of [`Model::run`]; [`Error::NotFiniteInput`], [`Error::Interrupted`], [`Error::Io`], and errors of
/// [`Watch::found`] and the cache.
pub fn gather(
    model: &Model,
    texts: &Texts,
    options: &Options,
    plan: &Plan,
    mut cache: Option<&mut MomentsCache>,
    watch: &mut dyn Watch,
) -> Result<Summary, Error> {
    let engine = Steps::new(model)?;
    // Inputs of a step, over all rounds.
    let inputs = |step: &PlannedStep| step.rounds.concat();
    let is_known = |(index, step)| cache.as_ref().is_some_and(|cache| cache.has(index, &inputs(step)));
    let is_known: Vec<bool> = plan.steps.iter().enumerate().map(is_known).collect();
    // Steps after the last missing one do not run.
    let n_run = is_known.iter().rposition(|known| !known).map_or(0, |last| last + 1);
    let n_rounds: usize = (0..n_run).map(|step| n_rounds_of(plan, step, is_known[step])).sum();
    let (mut done, of) = (0, n_rounds * plan.batches.len());
    let mut states = States::new(plan.batches.len(), plan.is_spilled).map_err(spill)?;
    let mut summary = Summary { importance: Collector::new(options.with_output), ..Summary::default() };
    for (step, planned) in plan.steps.iter().enumerate() {
        summary.too_wide.extend(planned.too_wide.iter().map(|input| input.of.clone()));
        let mut written = None;
        let n_rounds = if step < n_run { n_rounds_of(plan, step, is_known[step]) } else { 0 };
        for round in 0..n_rounds {
            let importance = (round == 0).then(|| Collector::new(options.with_output));
            let mut gatherer = (!is_known[step]).then(|| Gatherer::new(&planned.rounds[round], importance));
            for (index, batch) in plan.batches.iter().enumerate() {
                let is_last = round + 1 == n_rounds;
                let between = states.get(index, is_last).map_err(spill)?;
                let next = run(&engine, step, texts, batch.clone(), options, between, gatherer.as_mut())?;
                if is_last {
                    states.put(index, next).map_err(spill)?;
                }
                done += 1;
                if !watch.progress(done, of) {
                    return Err(Error::Interrupted);
                }
            }
            let Some(gatherer) = gatherer else { continue };
            let (inputs, importance) = gatherer.finish();
            if let Some(importance) = importance {
                // In the first round, because the file is planned before anything is written.
                let part = importance.to_part();
                summary.importance.add_part(&part)?;
                if let Some(cache) = &cache {
                    written = Some(cache.begin(step, &planned.rounds.concat(), &part)?);
                }
            }
            summary.note(&inputs);
            if let Some(written) = &mut written {
                written.inputs(&inputs)?;
            }
            watch.found(Found { step, round, inputs })?;
        }
        states.end_step().map_err(spill)?;
        if let (Some(cache), Some(written)) = (&mut cache, written) {
            cache.finish(step, written)?;
        }
        if let (Some(cache), true) = (&cache, is_known[step]) {
            cache.add_importance_of(step, &mut summary.importance)?;
            for (round, planned) in planned.rounds.iter().enumerate() {
                let inputs = cache.inputs(step, planned)?;
                summary.note(&inputs);
                watch.found(Found { step, round, inputs })?;
            }
        }
    }
    Ok(summary)
}

/// Number of times the batches run through a step.
fn n_rounds_of(plan: &Plan, step: usize, is_known: bool) -> usize {
    if is_known { 1 } else { plan.steps[step].rounds.len() }
}

/// Runs one batch through a step.
fn run(
    engine: &Steps<'_>,
    step: usize,
    texts: &Texts,
    batch: std::ops::Range<usize>,
    options: &Options,
    between: Between,
    gatherer: Option<&mut Gatherer>,
) -> Result<Between, Error> {
    let chunks = texts.chunks();
    let sequences: Vec<&[u32]> = chunks[batch.clone()].iter().map(Vec::as_slice).collect();
    let Some(gatherer) = gatherer else { return Ok(engine.run(step, &sequences, between, None)?) };
    let is_held = |chunk: usize| is_held(chunk, chunks.len(), options.held_every);
    gatherer.begin(batch.clone().map(|chunk| (chunks[chunk].len(), is_held(chunk))));
    let next = engine.run(step, &sequences, between, Some(&mut *gatherer as &mut dyn Observer))?;
    gatherer.check(batch, sequences.iter().map(|sequence| sequence.len()))?;
    Ok(next)
}

/// An I/O error with its file.
fn io_error(action: &'static str, path: &std::path::Path, source: io::Error) -> Error {
    Error::Io { action, path: path.display().to_string(), source }
}

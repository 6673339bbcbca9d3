//! Second moments of what goes into every matrix of a model, gathered layer by layer.
//!
//! All of a text runs through one layer, then all of it through the next. What a layer is multiplied with is added up while it
//! runs, in two sums of its own: over the tokens to learn from, and over those of windows that are held out, so that whoever
//! rounds with the first can judge by the second. Memory holds the sums of one layer (of a part of it, if they are larger than
//! [`Options::gram_bytes`]: the layer then runs several times, once for the widest input alone), a batch of activations, and what
//! every batch leaves between two layers, which goes to the disk beyond [`Options::state_bytes`]. [`Plan`] says how much that is
//! before anything runs.
//!
//! Matrices that are multiplied with the same rows share one sum; which they are is seen, not read from names.
//!
//! The sums are the same to the last bit for any number of threads: products of fixed blocks of rows, added in the order of the
//! text.

mod cache;
mod file;
mod gatherer;
mod outputs;
mod plan;
mod states;
mod texts;

use std::io;

use eval::{Between, Model, Observer, Steps, importance::Collector};

pub use cache::MomentsCache;
use gatherer::Gatherer;
pub use outputs::gather_outputs;
pub(crate) use plan::batches;
use plan::is_held;
pub use plan::{Matrices, Plan, PlannedInput, PlannedStep};
use states::{States, spill};
pub use texts::Texts;

use crate::{Error, Gram};

/// Below so many tokens to learn from for each column the moments are those of few tokens more than of a language: rounding with
/// them should lean on their diagonal.
pub const FEW_PER_COLUMN: f64 = 4.0;

/// How moments are gathered.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Bytes that sums of several inputs may take at once.
    pub gram_bytes: u64,
    /// Bytes that the sums of one input may take, which is then alone. Of wider ones no sums are made.
    pub widest_bytes: u64,
    /// Bytes that what batches leave between two layers may take in memory.
    pub state_bytes: u64,
    /// Every window of so many is held out, the last of them; none where it is 0 or 1, one at least of two windows or more.
    pub held_every: usize,
    /// The fewest tokens to learn from for each column of the widest input that is taken.
    pub least_per_column: f64,
    /// Whether importance is gathered of the output matrix too ([`Collector::new`]).
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

/// What goes into one matrix, or into several at once.
#[derive(Debug, Clone, PartialEq)]
pub struct Input {
    /// What they go into.
    pub of: Matrices,
    /// Over the tokens to learn from.
    pub fit: Gram,
    /// Over the tokens held out.
    pub held: Gram,
}

impl Input {
    /// Tokens to learn from for each column.
    pub fn tokens_per_column(&self) -> f64 {
        self.fit.n_tokens() as f64 / self.fit.n_columns().max(1) as f64
    }
}

/// Inputs of one step that were gathered together.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// Which step, from 0: of a decoder what is before the layers, each layer, and what is behind.
    pub step: usize,
    /// Which round of it, from 0.
    pub round: usize,
    /// In the order of their names. Experts that no token was routed to have no tokens.
    pub inputs: Vec<Input>,
}

/// Who wants what is gathered, and to know how far it is.
pub trait Watch {
    /// Inputs of a step are complete; nobody else holds them.
    ///
    /// # Errors
    /// Any, which ends the run.
    fn found(&mut self, found: Found) -> Result<(), Error>;

    /// `done` batches of `of` have run, over all steps and rounds. False ends the run.
    fn progress(&mut self, _done: usize, _of: usize) -> bool {
        true
    }
}

/// What is told of a run.
#[derive(Debug, Clone, Default)]
pub struct Summary {
    /// Of all tokens, as [`Collector`] gathers it alone.
    pub importance: Collector,
    /// Inputs with fewer tokens than [`FEW_PER_COLUMN`] for each column, and how many they have; not those without any.
    pub few: Vec<(Matrices, f64)>,
    /// Experts that no token to learn from was routed to.
    pub unreached: Vec<Matrices>,
    /// Inputs that are too wide for the memory that was allowed.
    pub too_wide: Vec<Matrices>,
    /// Inputs with columns that are always zero, and which those are.
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

/// Gathers the moments of all inputs of a model, step by step, and hands them out. With a cache, steps that are in it are read
/// from it, and others are written to it.
///
/// # Errors
/// As [`Model::run`]; [`Error::NotFiniteInput`], [`Error::Interrupted`], [`Error::Io`], and what [`Watch::found`] and the cache
/// fail with.
pub fn gather(
    model: &Model,
    texts: &Texts,
    options: &Options,
    plan: &Plan,
    mut cache: Option<&mut MomentsCache>,
    watch: &mut dyn Watch,
) -> Result<Summary, Error> {
    let engine = Steps::new(model)?;
    // Each step's inputs, whichever round they belong to.
    let inputs = |step: &PlannedStep| step.rounds.concat();
    let is_known = |(index, step)| cache.as_ref().is_some_and(|cache| cache.has(index, &inputs(step)));
    let is_known: Vec<bool> = plan.steps.iter().enumerate().map(is_known).collect();
    // Behind the last step that has to be gathered nothing has to run.
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
                let next = run(&engine, step, (texts, batch.clone()), options, between, gatherer.as_mut())?;
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
                // In the first round, so that the file is planned before anything goes into it.
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

/// How often the batches run through a step.
fn n_rounds_of(plan: &Plan, step: usize, is_known: bool) -> usize {
    if is_known { 1 } else { plan.steps[step].rounds.len() }
}

/// Runs one batch through a step.
fn run(
    engine: &Steps<'_>,
    step: usize,
    (texts, batch): (&Texts, std::ops::Range<usize>),
    options: &Options,
    between: Between,
    gatherer: Option<&mut Gatherer>,
) -> Result<Between, Error> {
    let windows = texts.windows();
    let sequences: Vec<&[u32]> = windows[batch.clone()].iter().map(Vec::as_slice).collect();
    let Some(gatherer) = gatherer else { return Ok(engine.run(step, &sequences, between, None)?) };
    let is_held = |window: usize| is_held(window, windows.len(), options.held_every);
    gatherer.begin(batch.clone().map(|window| (windows[window].len(), is_held(window))));
    let next = engine.run(step, &sequences, between, Some(&mut *gatherer as &mut dyn Observer))?;
    gatherer.check(batch, sequences.iter().map(|sequence| sequence.len()))?;
    Ok(next)
}

/// An error of the system, with the file that it tells of.
fn io_error(action: &'static str, path: &std::path::Path, source: io::Error) -> Error {
    Error::Io { action, path: path.display().to_string(), source }
}

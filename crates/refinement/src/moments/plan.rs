//! Memory and work of a run, known before it starts.

use gguf_runtime::{Between, Model, Multiplied, Observer, Part, Steps};

use super::{Options, Texts};
use crate::Error;

/// Matrices with a common input, each a tensor and its part.
pub type Matrices = Vec<(String, Part)>;

/// A planned input of one or more matrices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedInput {
    /// Matrices with this input.
    pub of: Matrices,
    /// Number of columns.
    pub n_columns: usize,
}

impl PlannedInput {
    /// Bytes of its two sums (training and held-out tokens).
    pub fn gram_bytes(&self) -> u64 {
        (self.n_columns as u64).saturating_pow(2).saturating_mul(8)
    }
}

/// A step of the model: before the layers, one layer, or after the layers. Models that cannot be cut have one
/// step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedStep {
    /// Inputs of each round. All batches run once per round, so that the sums of one round fit into the
    /// allowed memory.
    pub rounds: Vec<Vec<PlannedInput>>,
    /// Inputs without sums, because they are too wide.
    pub too_wide: Vec<PlannedInput>,
}

/// Requirements of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// All steps, in order.
    pub steps: Vec<PlannedStep>,
    /// Bytes of the sums that exist at the same time.
    pub gram_bytes: u64,
    /// Bytes of the state of all chunks between two steps.
    pub state_bytes: u64,
    /// True if the state is on disk (twice).
    pub is_spilled: bool,
    /// Approximate bytes of a running batch.
    pub working_bytes: u64,
    /// Approximate bytes of the statistics files.
    pub file_bytes: u64,
    /// True for output gradients ([`Plan::of_outputs`]).
    pub(super) has_outputs: bool,
    /// Chunks that run together, by index.
    pub(super) batches: Vec<std::ops::Range<usize>>,
}

/// Records which matrices share an input.
#[derive(Default)]
struct Probe {
    inputs: Vec<PlannedInput>,
}

impl Observer for Probe {
    fn mul_mat(&mut self, tensor: &str, part: Part, _input: &[f32], n_columns: usize) {
        self.note(vec![(tensor.to_owned(), part)], n_columns);
    }

    fn multiplied(&mut self, call: &Multiplied<'_>) {
        self.note(call.by.iter().map(|(tensor, part)| ((*tensor).to_owned(), *part)).collect(), call.n_in);
    }
}

impl Probe {
    fn note(&mut self, of: Matrices, n_columns: usize) {
        // One token reaches a few experts, but all experts have the same matrices.
        let n_experts = of.iter().find_map(|(_, part)| match part {
            Part::Expert { n, .. } => Some(*n),
            Part::Whole | Part::Head { .. } => None,
        });
        let expert_input = |index: usize| {
            let part = |part: &Part| match part {
                Part::Expert { n, .. } => Part::Expert { index, n: *n },
                other => *other,
            };
            of.iter().map(|(tensor, of)| (tensor.clone(), part(of))).collect()
        };
        let all: Vec<Matrices> = match n_experts {
            None => vec![of],
            Some(n) => (0..n).map(expert_input).collect(),
        };
        for of in all {
            if !self.inputs.iter().any(|input| input.of == of) {
                self.inputs.push(PlannedInput { of, n_columns });
            }
        }
    }
}

impl Plan {
    /// Runs one token through the model to find its inputs and the state between steps.
    ///
    /// # Errors
    /// Those of [`Model::run`]; [`Error::TooFewTokens`] by [`Options::least_per_column`].
    pub fn new(model: &Model, texts: &Texts, options: &Options) -> Result<Plan, Error> {
        let engine = Steps::new(model)?;
        let (mut steps, mut between, mut token_bytes) = (Vec::new(), Between::default(), 0);
        for index in 0..engine.n_steps() {
            let mut probe = Probe::default();
            between = engine.run(index, &[&[0]], between, Some(&mut probe))?;
            token_bytes = between.n_bytes().max(token_bytes);
            steps.push(planned(probe.inputs, options));
        }
        let n_held: usize = (0..texts.chunks().len())
            .filter(|chunk| is_held(*chunk, texts.chunks().len(), options.held_every))
            .map(|chunk| texts.chunks()[chunk].len())
            .sum();
        check_length(&steps, texts.n_tokens() - n_held, options.least_per_column)?;
        let bytes = |inputs: &[PlannedInput]| inputs.iter().map(PlannedInput::gram_bytes).sum::<u64>();
        let all_rounds = || steps.iter().flat_map(|step: &PlannedStep| &step.rounds);
        let (gram_bytes, all_bytes) = (
            all_rounds().map(|round| bytes(round)).max().unwrap_or(0),
            all_rounds().map(|round| bytes(round)).sum::<u64>(),
        );
        let state_bytes = token_bytes.saturating_mul(texts.n_tokens() as u64);
        let rows_at_once = engine.rows_at_once();
        Ok(Plan {
            gram_bytes,
            state_bytes,
            is_spilled: state_bytes > options.state_bytes,
            working_bytes: engine.working_bytes(rows_at_once.min(texts.n_tokens())),
            // Files store one triangle of each sum.
            file_bytes: all_bytes / 2,
            has_outputs: false,
            batches: batches(texts.chunks(), rows_at_once),
            steps,
        })
    }

    /// Number of batches.
    pub fn n_batches(&self) -> usize {
        self.batches.len()
    }

    /// Number of passes of all chunks through a step, summed over steps.
    pub fn n_rounds(&self) -> usize {
        self.steps.iter().map(|step| step.rounds.len()).sum()
    }

    /// Approximate memory in bytes, without the mapped file.
    pub fn memory_bytes(&self) -> u64 {
        self.gram_bytes + self.working_bytes + if self.is_spilled { 0 } else { self.state_bytes }
    }
}

/// True if a chunk is held out: the last of every `every` chunks, or the last chunk if there are fewer.
pub(super) fn is_held(chunk: usize, n_chunks: usize, every: usize) -> bool {
    let every = every.min(n_chunks);
    every > 1 && chunk % every == every - 1
}

/// Groups inputs into rounds of limited size, in order. A larger input has its own round.
pub(super) fn planned(inputs: Vec<PlannedInput>, options: &Options) -> PlannedStep {
    let fits = |input: &PlannedInput| input.gram_bytes() <= options.widest_bytes;
    let (fitting, too_wide): (Vec<_>, Vec<_>) = inputs.into_iter().partition(fits);
    let (mut rounds, mut room) = (vec![Vec::new()], options.gram_bytes);
    for input in fitting {
        if input.gram_bytes() > room && rounds.last().is_some_and(|round| !round.is_empty()) {
            rounds.push(Vec::new());
            room = options.gram_bytes;
        }
        room = room.saturating_sub(input.gram_bytes());
        if let Some(round) = rounds.last_mut() {
            round.push(input);
        }
    }
    PlannedStep { rounds, too_wide }
}

/// Chunks that run together: up to `rows_at_once` tokens, at least one chunk. For chunks of equal length the
/// groups are those of [`Model::sequences_at_once`].
pub(crate) fn batches(chunks: &[Vec<u32>], rows_at_once: usize) -> Vec<std::ops::Range<usize>> {
    let (mut batches, mut first, mut n_rows) = (Vec::new(), 0, 0);
    for (index, chunk) in chunks.iter().enumerate() {
        if index > first && n_rows + chunk.len() > rows_at_once {
            batches.push(first..index);
            (first, n_rows) = (index, 0);
        }
        n_rows += chunk.len();
    }
    if first < chunks.len() {
        batches.push(first..chunks.len());
    }
    batches
}

fn check_length(steps: &[PlannedStep], found: usize, least_per_column: f64) -> Result<(), Error> {
    let inputs = steps.iter().flat_map(|step| step.rounds.iter().flatten());
    // The tokens of experts depend on the router.
    let seen_by_all =
        inputs.filter(|input| !input.of.iter().any(|(_, part)| matches!(part, Part::Expert { .. })));
    let columns = seen_by_all.map(|input| input.n_columns).max().unwrap_or(0);
    let needed = (columns as f64 * least_per_column).ceil() as usize;
    if found < needed.max(1) {
        return Err(Error::TooFewTokens { found, columns, needed: needed.max(1) });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_eighth_window_is_held_out() {
        let held = |n: usize, every| (0..n).filter(|chunk| is_held(*chunk, n, every)).collect::<Vec<_>>();
        assert_eq!(held(17, 8), [7, 15]);
        assert_eq!(held(3, 8), [2]);
        assert_eq!(held(1, 8), [0; 0]);
        assert_eq!(held(9, 0), [0; 0]);
    }

    #[test]
    fn windows_are_batched_up_to_row_limit() {
        let chunks: Vec<Vec<u32>> = [3, 3, 5, 9, 1, 1].map(|n| vec![0; n]).to_vec();
        assert_eq!(batches(&chunks, 6), [0..2, 2..3, 3..4, 4..6]);
        assert!(batches(&[], 6).is_empty());
    }

    #[test]
    fn rounds_stay_within_the_limit() {
        let input = |n_columns| PlannedInput { of: vec![(format!("{n_columns}"), Part::Whole)], n_columns };
        let widths = |step: &PlannedStep| -> Vec<Vec<usize>> {
            step.rounds.iter().map(|round| round.iter().map(|input| input.n_columns).collect()).collect()
        };
        let options = Options { gram_bytes: 4000, widest_bytes: 7000, ..Options::default() };
        // 800, 3200, 968, 7200 and 800 bytes.
        let inputs = || vec![input(10), input(20), input(11), input(30), input(10)];
        let step = planned(inputs(), &options);
        assert_eq!(widths(&step), [vec![10, 20], vec![11, 10]]);
        assert_eq!(step.too_wide, [input(30)]);
        // Inputs above the shared limit have their own round, in any position.
        let step = planned(inputs(), &Options { widest_bytes: 7200, ..options.clone() });
        assert_eq!(widths(&step), [vec![10, 20], vec![11], vec![30], vec![10]]);
        let step = planned(vec![input(30), input(10)], &Options { widest_bytes: 7200, ..options });
        assert_eq!(widths(&step), [vec![30], vec![10]]);
    }
}

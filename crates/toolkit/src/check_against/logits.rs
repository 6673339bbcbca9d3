//! Predictions, and the place in the computation at which they begin to differ.

use std::{collections::HashMap, sync::atomic::Ordering};

use gguf_runtime::{Model, Observer, Part, Sequence, stats::compare_logits};
use gguf_types::DType;
use serde::Serialize;

use super::{
    record::{Predicted, Record},
    weights::sign,
};
use crate::{
    error::Error,
    events::Events,
    progress_line::ProgressLine,
    verify::{Check, Finding},
};

/// Differences of predictions, over all recorded positions.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Predictions {
    /// Number of positions.
    pub positions: usize,
    /// Mean Kullback-Leibler divergence of the file from the original, in nats.
    pub kl: f64,
    /// Largest divergence of a position.
    pub max_kl: f64,
    /// Share of positions with the same most likely token, 0 to 1.
    pub same_top: f64,
    /// Largest difference of two logits.
    pub max_difference: f64,
    /// Mean relative error of a row of logits: `|a - b| / |a|` with `a` and `b` less their means.
    pub error: f64,
    /// The relative error at the first position of sequences, where attention sees one token; `None` if none is recorded.
    pub first_error: Option<f64>,
    /// Bits of an average weight in the file.
    pub bits_per_weight: f64,
    /// The bounds for these numbers.
    pub bounds: Bounds,
    /// Inputs of the products with weights, in the order of the computation.
    pub inputs: Vec<ProductInput>,
}

/// Largest differences that conversion and quantization explain.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Bounds {
    /// Bound of [`Predictions::kl`].
    pub kl: f64,
    /// Bound of [`Predictions::error`]; infinite for quantized files, whose loss only the divergence bounds.
    pub error: f64,
}

/// Input of a product with a matrix.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProductInput {
    /// Module of the original.
    pub module: String,
    /// Tensor of the file.
    pub tensor: String,
    /// Root mean square over tokens of the relative difference of the input, by its product with signs and its length.
    pub error: f64,
    /// The same for the first token of each sequence.
    pub first_error: f64,
}

/// KL divergence of a file with [`KL_BITS`] bits per weight: the worst of the stock Q4_K_M files in docs/notes/quality.md.
const KL: f64 = 0.062;
/// Bits per weight of Q4_K_M.
const KL_BITS: f64 = 4.85;
/// Each further bit halves the error of weights, and divides the divergence by four. This fits the other types of that page,
/// 2.3 to 4.6 bits, within a factor of 2.
const KL_PER_BIT: f64 = 4.0;
/// Factor between the divergence of a few recorded positions and the means of that page.
const KL_FACTOR: f64 = 4.0;

impl Bounds {
    /// Bounds for a file with this number of bits per weight and these types, and for an original that computed in `dtype`.
    ///
    /// Rounding to bf16, of weights or of the computation, changes logits of the tiny checkpoints of this repository by up
    /// to 1.4 % (mean over positions) and 6e-5 nats; the bounds leave room for deep models. In f32 only the order of sums differs.
    pub fn of(bits_per_weight: f64, types: &[DType], dtype: &str) -> Bounds {
        let all = |allowed: &[DType]| types.iter().all(|dtype| allowed.contains(dtype));
        let is_single = matches!(dtype, "float32" | "float64" | "");
        match () {
            () if all(&[DType::F32, DType::F64]) && is_single => Bounds { kl: 1e-4, error: 2e-3 },
            () if all(&[DType::F32, DType::F64, DType::F16, DType::BF16]) => Bounds { kl: 5e-3, error: 5e-2 },
            () => {
                let kl = KL_FACTOR * KL * KL_PER_BIT.powf(KL_BITS - bits_per_weight);
                Bounds { kl: kl.max(5e-3), error: f64::INFINITY }
            }
        }
    }
}

impl Predictions {
    /// True if the differences are within the bounds. NaN is outside.
    pub fn is_near(&self) -> bool {
        self.kl <= self.bounds.kl && self.error <= self.bounds.error
    }

    /// The first product whose input differs by more than quantization explains.
    pub fn first_different_input(&self) -> Option<&ProductInput> {
        // Relative differences of inputs and of logits have the same size in a float file.
        let bound = if self.bounds.error.is_finite() { self.bounds.error } else { QUANTIZED_INPUT_ERROR };
        // NaN differs.
        self.inputs.iter().find(|input| input.error.is_nan() || input.error > bound)
    }
}

/// Bound of input differences in quantized files.
const QUANTIZED_INPUT_ERROR: f64 = 0.5;

/// Runs the sequences of a record and compares predictions. `tensors` are the tensors of the file by the modules of the
/// original.
///
/// # Errors
/// A file that cannot be run.
pub fn check(
    model: &Model,
    record: &Record,
    tensors: &HashMap<String, String>,
    events: &dyn Events,
) -> Result<(Check, Option<Predictions>), Error> {
    let mut check = Check::new("predictions");
    let sequences = &record.facts.sequences;
    if sequences.iter().all(|sequence| sequence.positions.is_empty()) {
        return Ok((check.skipped("the record has no predictions"), None));
    }
    let mut sums = Sums::default();
    let cancel = events.cancel();
    let mut progress = ProgressLine::new("sequences", sequences.len());
    for (index, sequence) in sequences.iter().enumerate() {
        if cancel.load(Ordering::Relaxed) {
            return Err(Error::interrupted());
        }
        if let Err(error) = sums.add(model, record, sequence, tensors) {
            check.push(Finding::error("run", format!("sequence {}: {error}", index + 1)));
            return Ok((check, None));
        }
        progress.update(events, index + 1, String::new);
    }
    let bits_per_weight = model.file().bits_per_weight();
    let types: Vec<DType> = model.file().tensors().map(|(_, info)| info.dtype).collect();
    let dtype = record.facts.model.as_ref().map_or("", |model| &model.dtype);
    let found = sums.finish(bits_per_weight, Bounds::of(bits_per_weight, &types, dtype));
    let message = format!(
        "KL divergence {:.6} (at most {:.6}), relative error of logits {:.5}{}, same top token {:.1} %",
        found.kl,
        found.bounds.kl,
        found.error,
        if found.bounds.error.is_finite() {
            format!(" (at most {:.5})", found.bounds.error)
        } else {
            String::new()
        },
        100.0 * found.same_top
    );
    if !found.is_near() {
        check.push(Finding::error(
            "predictions",
            format!("{message}, largest difference {:.4}", found.max_difference),
        ));
    }
    let vocab = sequences.iter().filter_map(|sequence| sequence.logits.shape.get(1));
    if let Some(other) = vocab.into_iter().find(|n| **n != model.n_vocab() as u64) {
        let message = format!("the original predicts {other} tokens, the file {}", model.n_vocab());
        check.push(Finding::warning("vocabulary", message));
    }
    check.summary = format!("{} positions: {message}", found.positions);
    Ok((check, Some(found)))
}

/// Running sums of a comparison.
#[derive(Default)]
struct Sums {
    positions: usize,
    kl: f64,
    max_kl: f64,
    same_top: usize,
    max_difference: f64,
    error: f64,
    /// Number of first positions.
    n_first: usize,
    first_error: f64,
    /// Modules in the order of the computation.
    inputs: Vec<InputSums>,
}

#[derive(Default)]
struct InputSums {
    module: String,
    tensor: String,
    tokens: usize,
    squares: f64,
    sequences: usize,
    first_squares: f64,
}

impl Sums {
    fn add(
        &mut self,
        model: &Model,
        record: &Record,
        sequence: &Predicted,
        tensors: &HashMap<String, String>,
    ) -> Result<(), gguf_runtime::Error> {
        let mut seen = Seen::new(sequence, tensors);
        let hidden = model.run(&[Sequence::new(&sequence.ids)], Some(&mut seen))?;
        let n_vocab = model.n_vocab();
        let recorded_vocab = sequence.logits.shape.get(1).copied().unwrap_or(0);
        let common = usize::try_from(recorded_vocab).map_or(n_vocab, |n| n.min(n_vocab));
        // All rows, because the input of the output matrix is that of every token.
        let mut rows = vec![0.0; model.logit_rows_at_once().min(hidden.n_rows()) * n_vocab];
        let at_once = (rows.len() / n_vocab.max(1)).max(1);
        for start in (0..hidden.n_rows()).step_by(at_once) {
            let end = (start + at_once).min(hidden.n_rows());
            let logits = &mut rows[..(end - start) * n_vocab];
            model.logits(&hidden, start..end, Some(&mut seen), logits)?;
            let is_here = |(_, position): &(usize, &usize)| (start..end).contains(position);
            for (index, position) in sequence.positions.iter().enumerate().filter(is_here) {
                let expected = record.elements(&sequence.logits, index as u64 * recorded_vocab, common);
                let found = &logits[(position - start) * n_vocab..][..expected.len()];
                self.position(&expected, found, *position == 0);
            }
        }
        self.inputs_of(record, sequence, &seen);
        Ok(())
    }

    fn position(&mut self, expected: &[f32], found: &[f32], is_first: bool) {
        if expected.is_empty() {
            return;
        }
        let compared = compare_logits(expected, found, 0, 1);
        self.positions += 1;
        self.kl += compared.kl;
        self.max_kl = self.max_kl.max(compared.kl);
        self.same_top += usize::from(compared.same_top);
        let error = relative_error(expected, found);
        self.error += error;
        if is_first {
            self.n_first += 1;
            self.first_error += error;
        }
        let differences = expected.iter().zip(found).map(|(a, b)| f64::from((a - b).abs()));
        self.max_difference = differences.fold(self.max_difference, f64::max);
    }

    fn inputs_of(&mut self, record: &Record, sequence: &Predicted, seen: &Seen<'_>) {
        let Some(inputs) = &sequence.inputs else { return };
        let n_tokens = sequence.ids.len();
        for (index, module) in sequence.modules.iter().enumerate() {
            let Some(tensor) = seen.names[index] else { continue };
            let found = &seen.values[index];
            let expected = record.elements(inputs, (index * n_tokens * 2) as u64, n_tokens * 2);
            if found.len() != expected.len() || n_tokens == 0 {
                continue;
            }
            // Product and length are compared with the length, so that both are relative errors of the vector.
            let squares = |(a, b): (&[f32; 2], &[f32; 2])| {
                let length = f64::from(a[1]).max(f64::MIN_POSITIVE);
                let relative = |i: usize| (f64::from(a[i]) - f64::from(b[i])) / length;
                relative(0).powi(2).max(relative(1).powi(2))
            };
            let of_tokens: Vec<f64> =
                expected.as_chunks::<2>().0.iter().zip(found.as_chunks::<2>().0).map(squares).collect();
            let known = self.inputs.iter().position(|sums| sums.module == *module);
            let at = known.unwrap_or_else(|| {
                let (module, tensor) = (module.clone(), tensor.to_owned());
                self.inputs.push(InputSums { module, tensor, ..InputSums::default() });
                self.inputs.len() - 1
            });
            let sums = &mut self.inputs[at];
            sums.tokens += n_tokens;
            sums.squares += of_tokens.iter().sum::<f64>();
            sums.sequences += 1;
            sums.first_squares += of_tokens[0];
        }
    }

    fn finish(self, bits_per_weight: f64, bounds: Bounds) -> Predictions {
        let n = self.positions.max(1) as f64;
        let input = |sums: InputSums| ProductInput {
            module: sums.module,
            tensor: sums.tensor,
            error: (sums.squares / sums.tokens.max(1) as f64).sqrt(),
            first_error: (sums.first_squares / sums.sequences.max(1) as f64).sqrt(),
        };
        Predictions {
            positions: self.positions,
            kl: self.kl / n,
            max_kl: self.max_kl,
            same_top: self.same_top as f64 / n,
            max_difference: self.max_difference,
            error: self.error / n,
            first_error: (self.n_first > 0).then(|| self.first_error / self.n_first as f64),
            bits_per_weight,
            bounds,
            inputs: self.inputs.into_iter().map(input).collect(),
        }
    }
}

/// `|a - b| / |a|` of two rows of logits, each less its mean, which no prediction depends on.
fn relative_error(a: &[f32], b: &[f32]) -> f64 {
    let n = a.len().max(1) as f64;
    let mean = |row: &[f32]| row.iter().map(|x| f64::from(*x)).sum::<f64>() / n;
    let (mean_a, mean_b) = (mean(a), mean(b));
    let (mut difference, mut length) = (0.0, 0.0);
    for (a, b) in a.iter().zip(b) {
        let (a, b) = (f64::from(*a) - mean_a, f64::from(*b) - mean_b);
        difference += (a - b).powi(2);
        length += a.powi(2);
    }
    if difference == 0.0 { 0.0 } else { (difference / length).sqrt() }
}

/// Product with signs and length of the inputs of the recorded modules.
struct Seen<'a> {
    /// Module of each tensor. The tensors of a fused module share its input, so one of them is enough.
    by_tensor: HashMap<&'a str, usize>,
    /// The tensor of each module.
    names: Vec<Option<&'a str>>,
    /// (n_tokens, 2) for each module; empty until it was seen.
    values: Vec<Vec<f32>>,
    n_tokens: usize,
}

impl<'a> Seen<'a> {
    fn new(sequence: &'a Predicted, tensors: &'a HashMap<String, String>) -> Seen<'a> {
        let names: Vec<Option<&str>> =
            sequence.modules.iter().map(|module| tensors.get(module).map(String::as_str)).collect();
        let by_tensor =
            names.iter().enumerate().filter_map(|(index, name)| Some(((*name)?, index))).collect();
        Seen { by_tensor, values: vec![Vec::new(); names.len()], names, n_tokens: sequence.ids.len() }
    }
}

impl Observer for Seen<'_> {
    fn mul_mat(&mut self, tensor: &str, part: Part, input: &[f32], n_in: usize) {
        let Some(values) = self.by_tensor.get(tensor).and_then(|index| self.values.get_mut(*index)) else {
            return;
        };
        // Only whole matrices see every token.
        if part != Part::Whole || values.len() >= 2 * self.n_tokens || n_in == 0 {
            return;
        }
        for row in input.chunks_exact(n_in) {
            let product: f64 = row.iter().zip(0..).map(|(x, index)| f64::from(*x) * sign(index)).sum();
            let squares: f64 = row.iter().map(|x| f64::from(*x).powi(2)).sum();
            values.extend([product as f32, squares.sqrt() as f32]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_grow_with_fewer_bits() {
        let of = |bits, dtype| Bounds::of(bits, &[DType::F32, dtype], "float32");
        assert!(of(8.5, DType::Q8_0).kl < of(4.85, DType::Q4_K).kl);
        // Every stock file of docs/notes/quality.md is within the bound of its bits.
        for (bits, kl) in
            [(4.85, 0.0619), (4.55, 0.1892), (3.9, 0.2439), (3.06, 0.5481), (2.96, 0.7312), (2.31, 2.0505)]
        {
            assert!(kl < of(bits, DType::Q4_K).kl, "{bits}");
        }
        assert_eq!(Bounds::of(32.0, &[DType::F32], "float32").error, 2e-3);
        assert_eq!(Bounds::of(32.0, &[DType::F32], "bfloat16").error, 5e-2);
    }

    #[test]
    fn constants_do_not_count_as_errors() {
        assert!(relative_error(&[1.0, 2.0, 4.0], &[3.0, 4.0, 6.0]) < 1e-12);
        assert!((relative_error(&[1.0, -1.0], &[2.0, -2.0]) - 1.0).abs() < 1e-12);
    }
}

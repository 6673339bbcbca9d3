//! Training of block factors: gradient descent on the KL divergence from the base.
//!
//! Levels and codes of a quantized model stay. The half-precision factors of the blocks of every matrix in its
//! layers are trained on texts by Adam, one step for each chunk. A step runs the model forward, keeps the input
//! of every layer, and goes backward layer by layer. As soon as the gradients of a layer are known, the
//! gradient of each of its matrices, `G^T X`, is reduced to one number per factor and applied; the gradients of
//! the weights are never stored. The base's hidden rows after the last layer are kept, and its logits are
//! computed from them again for each step.
//!
//! Every [`TrainingOptions::held_every`]th chunk is held out. After each pass, the divergence over these decides;
//! the factors of the best pass are kept, which may be those before the first.
//!
//! The order of every sum is fixed, so the result depends neither on threads nor on the CPU level.

mod factors;
mod rows;

use std::collections::BTreeMap;

use gguf_quant::Level;
use gguf_runtime::{Between, Model, Observer, Steps, stats::Prediction};
use gguf_types::DType;
use rayon::prelude::*;

use self::{
    factors::{Factors, Seen, Step, has_factors},
    rows::{Kept, KeptRows},
};
use crate::{Error, moments::Texts};

/// Options of a training.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrainingOptions {
    /// Passes over the texts.
    pub passes: usize,
    /// Size of the first step, as a share of a factor. Later steps are smaller, down to zero.
    pub rate: f32,
    /// One of this many chunks is held out.
    pub held_every: usize,
    /// CPU level; it changes no bit.
    pub level: Level,
}

impl Default for TrainingOptions {
    fn default() -> TrainingOptions {
        TrainingOptions { passes: 3, rate: 1e-4, held_every: 8, level: Level::detect() }
    }
}

/// Result of a training.
#[derive(Debug, Clone, PartialEq)]
pub struct Trained {
    /// Mean KL divergence in nats over the held-out chunks, before training and after each pass.
    pub held_out: Vec<f64>,
    /// The pass whose factors are used; 0 if training did not help.
    pub best: usize,
    /// Blocks with trained factors, by tensor; empty if training did not help.
    pub blocks: BTreeMap<String, Vec<u8>>,
    /// Quantized matrices with factors that were not trained: experts, and those outside of the layers.
    pub untrained: Vec<String>,
}

/// Trains the block factors of `student`, a quantized form of `base`, on texts. `progress` receives the number
/// of steps that are done and the number of all; it returns false to stop. `student` has its own blocks again
/// afterwards.
///
/// Memory: the trained blocks, 12 bytes for each factor, and for one chunk the inputs of all layers and of all
/// their matrices, the gradients of one layer, and logits.
///
/// # Errors
/// [`Error::Eval`] for a model without a backward pass; [`Error::NoTokens`] for texts of fewer than two chunks;
/// [`Error::Interrupted`].
pub fn train(
    base: &Model,
    student: &Model,
    texts: &Texts,
    options: &TrainingOptions,
    progress: &mut dyn FnMut(usize, usize) -> bool,
) -> Result<Trained, Error> {
    let result = Training::new(base, student, texts, options).and_then(|mut training| training.run(progress));
    student.restore();
    result
}

struct Training<'m> {
    options: TrainingOptions,
    student_model: &'m Model,
    base_model: &'m Model,
    base: Steps<'m>,
    student: Steps<'m>,
    chunks: &'m [Vec<u32>],
    /// Output of the last step of the base, for each chunk.
    base_last: Vec<Between>,
    factors: BTreeMap<String, Factors>,
}

impl<'m> Training<'m> {
    fn new(
        base_model: &'m Model,
        student_model: &'m Model,
        texts: &'m Texts,
        options: &TrainingOptions,
    ) -> Result<Training<'m>, Error> {
        let (base, student) = (Steps::new(base_model)?, Steps::new(student_model)?);
        student.need_backward()?;
        base.need_backward()?;
        let chunks = texts.chunks();
        if chunks.len() < 2 || chunks.iter().any(Vec::is_empty) {
            return Err(Error::NoTokens);
        }
        let last = |chunk: &Vec<u32>| {
            let run = |between, step| base.run(step, &[chunk], between, None);
            (0..base.n_steps()).try_fold(Between::default(), run)
        };
        let base_last = chunks.iter().map(last).collect::<Result<_, _>>()?;
        Ok(Training {
            options: *options,
            student_model,
            base_model,
            base,
            student,
            chunks,
            base_last,
            factors: BTreeMap::new(),
        })
    }

    fn is_held(&self, chunk: usize) -> bool {
        // Short texts use their last chunk.
        let every = self.options.held_every.clamp(1, self.chunks.len());
        chunk % every == every - 1
    }

    fn run(&mut self, progress: &mut dyn FnMut(usize, usize) -> bool) -> Result<Trained, Error> {
        let trained: Vec<usize> = (0..self.chunks.len()).filter(|chunk| !self.is_held(*chunk)).collect();
        let n_steps = trained.len() * self.options.passes;
        let mut held_out = vec![self.held_out()?];
        let (mut best, mut best_values) = (0, BTreeMap::new());
        let mut done = 0;
        for pass in 1..=self.options.passes {
            for chunk in &trained {
                let left = (n_steps - done) as f32 / n_steps as f32;
                done += 1;
                let step =
                    Step { index: done as i32, rate: self.options.rate * left, level: self.options.level };
                self.step(*chunk, step)?;
                if !progress(done, n_steps) {
                    return Err(Error::Interrupted);
                }
            }
            let divergence = self.held_out()?;
            // Also false for NaN.
            if divergence < held_out[best] {
                best = pass;
                best_values =
                    self.factors.iter().map(|(tensor, factors)| (tensor.clone(), factors.values())).collect();
            }
            held_out.push(divergence);
        }
        let mut blocks = BTreeMap::new();
        for (tensor, values) in best_values {
            let Some(factors) = self.factors.get_mut(&tensor) else { continue };
            factors.set_values(&values);
            blocks.insert(tensor.clone(), factors.apply(&stored(self.student_model, &tensor)?.1));
        }
        let has = |info: &gguf_container::TensorInfo| {
            has_factors(info.dtype) && !self.factors.contains_key(&info.name)
        };
        let tensors = self.student_model.file().tensors().map(|(_, info)| info);
        let untrained = tensors.filter(|info| has(info)).map(|info| info.name.clone()).collect();
        Ok(Trained { held_out, best, blocks, untrained })
    }

    /// Mean divergence over the held-out chunks.
    fn held_out(&self) -> Result<f64, Error> {
        let (mut sum, mut n_rows) = (0.0, 0u32);
        for chunk in (0..self.chunks.len()).filter(|chunk| self.is_held(*chunk)) {
            let tokens = &self.chunks[chunk];
            let run = |between, step| self.student.run(step, &[tokens], between, None);
            let last = (0..self.student.n_steps()).try_fold(Between::default(), run)?;
            let n_vocab = self.student_model.n_vocab();
            let at_once = self.student_model.logit_rows_at_once();
            for first in (0..tokens.len()).step_by(at_once) {
                let rows: Vec<usize> = (first..tokens.len().min(first + at_once)).collect();
                let logits = |model: &Model, steps: &Steps<'_>, last: &Between| -> Result<Vec<f32>, Error> {
                    let hidden = steps.hidden(last, &rows);
                    let mut out = vec![0.0; rows.len() * n_vocab];
                    model.logits(&hidden, 0..rows.len(), None, &mut out)?;
                    Ok(out)
                };
                let of_base = logits(self.base_model, &self.base, &self.base_last[chunk])?;
                let of_student = logits(self.student_model, &self.student, &last)?;
                let pairs = || of_base.par_chunks(n_vocab).zip(of_student.par_chunks(n_vocab));
                let kl = |(base, other): (&[f32], &[f32])| Prediction::of(base, 1).compare(other, 0).kl;
                let row_kl: Vec<f64> = self.student_model.install(|| pairs().map(kl).collect());
                // Summed in row order, for any number of threads.
                sum += row_kl.iter().sum::<f64>();
                n_rows += rows.len() as u32;
            }
        }
        Ok(sum / f64::from(n_rows.max(1)))
    }

    /// One step of descent on a chunk.
    fn step(&mut self, chunk: usize, step: Step) -> Result<(), Error> {
        let sequences = [&self.chunks[chunk][..]];
        let n_steps = self.student.n_steps();
        let mut entered = Vec::with_capacity(n_steps);
        let mut between = Between::default();
        for index in 0..n_steps {
            // Inputs of matrices are kept here, so that the backward pass runs each layer only once more.
            let mut inputs = KeptRows::default();
            let observer = (1..n_steps - 1).contains(&index).then_some(&mut inputs as &mut dyn Observer);
            let next = self.student.run(index, &sequences, between.clone(), observer)?;
            entered.push((std::mem::replace(&mut between, next), inputs));
        }
        let mut gradients = self.student.divergence_back(&between, &self.base, &self.base_last[chunk])?;
        for index in (1..n_steps).rev() {
            let (entered, inputs) = entered.pop().unwrap_or_default();
            let mut outputs = KeptRows::default();
            gradients = self.student.backward(index, &sequences, entered, gradients, Some(&mut outputs))?;
            for (tensor, outputs) in outputs.into_kept() {
                if let Some(inputs) = inputs.get(&tensor) {
                    self.train_matrix(&tensor, inputs, &outputs, step)?;
                }
            }
        }
        Ok(())
    }

    /// Trains the factors of a matrix with its inputs and output gradients, and applies them to the student.
    fn train_matrix(&mut self, tensor: &str, inputs: &Kept, outputs: &Kept, step: Step) -> Result<(), Error> {
        let (dtype, blocks) = stored(self.student_model, tensor)?;
        // One matrix for all tokens: experts and heads are not trained.
        if !has_factors(dtype) || inputs.n_tokens() != outputs.n_tokens() {
            return Ok(());
        }
        let seen = Seen { inputs: &inputs.rows, gradients: &outputs.rows };
        let new = || Factors::new(dtype, outputs.width, inputs.width);
        let factors = self.factors.entry(tensor.to_owned()).or_insert_with(new);
        let trained = self.student_model.install(|| {
            factors.train(&blocks, seen, step)?;
            Ok::<_, Error>(factors.apply(&blocks))
        })?;
        Ok(self.student_model.replace(tensor, dtype, trained)?)
    }
}

/// Type and blocks of a tensor in the file, little-endian.
fn stored<'m>(model: &'m Model, tensor: &str) -> Result<(DType, std::borrow::Cow<'m, [u8]>), Error> {
    let missing = || gguf_runtime::Error::MissingTensor { name: tensor.to_owned() };
    let (file, info) = model.file().tensor(tensor).ok_or_else(missing)?;
    Ok((info.dtype, file.endian().to_little(info.dtype, file.data(info)?)))
}

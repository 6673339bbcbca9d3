//! Training of scales: the rounded file is trained next to the output, and its blocks are copied.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Arc, PoisonError},
    time::{Duration, Instant},
};

use gguf_conversion::EncodedRows;
use gguf_refinement::{TrainingOptions, moments::Watch as _, train};
use gguf_runtime::Model;
use serde::Serialize;

use super::{Calibration, Rounder, gathered::Progress, open};
use crate::{error::Error, events::Events, text::human_duration};

/// Names of tensors in a note.
const NAMED: usize = 3;

/// A training of scales.
#[derive(Debug, Clone, Serialize)]
pub struct Training {
    /// Mean KL divergence on held-out chunks in nats, before training and after each pass.
    held_out: Vec<f64>,
    /// The pass that is kept, from 1; 0 if training did not help.
    kept_pass: usize,
    /// Number of matrices with trained scales.
    matrices: usize,
    #[serde(skip)]
    pub(super) seconds: f64,
}

impl Training {
    /// A line about the result.
    pub fn line(&self) -> String {
        let Training { held_out, kept_pass, matrices, .. } = self;
        let before = held_out.first().copied().unwrap_or_default();
        match held_out.get(*kept_pass) {
            Some(after) if *kept_pass > 0 => format!(
                "scales trained in {matrices} matrices: held-out KL divergence {before:.5} -> {after:.5} after pass {kept_pass} \
                    of {}",
                held_out.len() - 1
            ),
            _ => format!("scales not trained: held-out KL divergence {before:.5} did not fall"),
        }
    }
}

/// A quantized file and its trained blocks.
#[derive(Debug)]
pub struct TrainedFile {
    file: gguf_container::Model,
    blocks: BTreeMap<String, Vec<u8>>,
}

impl TrainedFile {
    /// Copies the blocks of rows.
    ///
    /// # Errors
    /// A tensor that the file lacks or has in another type; blocks that cannot be read.
    pub fn copy(&self, rows: &EncodedRows<'_>, blocks: &mut [u8]) -> Result<(), Error> {
        let (file, info) = self
            .file
            .tensor(rows.tensor)
            .filter(|(_, info)| info.dtype == rows.dtype)
            .ok_or_else(|| Error::new(format!("tensor `{}` is not in the trained file", rows.tensor)))?;
        let n_rows = (rows.rows.end - rows.rows.start).max(1) as usize;
        let row_bytes = blocks.len() / n_rows;
        let first = rows.rows.start as usize * row_bytes;
        let range = first..first + blocks.len();
        match self.blocks.get(rows.tensor) {
            Some(trained) => blocks.copy_from_slice(&trained[range]),
            None => {
                let data = file.data(info).map_err(Error::new)?;
                blocks.copy_from_slice(&file.endian().to_little(info.dtype, data)[range]);
            }
        }
        Ok(())
    }
}

/// Has blocks copied from a trained file until it is dropped.
#[derive(Debug)]
pub struct TrainedBlocks<'a>(&'a Rounder);

impl Drop for TrainedBlocks<'_> {
    fn drop(&mut self) {
        *self.0.trained.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl Calibration {
    /// True if scales are trained.
    pub fn trains(&self) -> bool {
        self.args.train_scales
    }

    /// Trains the scales of the file at `untrained`. Until the guard is dropped, blocks of the file at `output` are copied
    /// from the result.
    ///
    /// # Errors
    /// A model without a backward pass; texts of fewer than two chunks; an interruption.
    pub fn train(
        &self,
        untrained: &Path,
        output: &Path,
        events: &dyn Events,
    ) -> Result<TrainedBlocks<'_>, Error> {
        let began = Instant::now();
        self.encoder.refiner.release();
        let (base, student) = (open(&self.base, self.n_threads)?, open(untrained, self.n_threads)?);
        let options = TrainingOptions { level: self.level, ..TrainingOptions::default() };
        let mut progress = Progress::new("steps of training", events);
        let trained =
            train(&base, &student, &self.texts, &options, &mut |done, of| progress.progress(done, of))
                .map_err(|error| Error::at(&self.base, error))?;
        note_untrained(&student, &trained.untrained, events);
        let training = Training {
            held_out: trained.held_out,
            kept_pass: trained.best,
            matrices: trained.blocks.len(),
            seconds: began.elapsed().as_secs_f64(),
        };
        if training.kept_pass == 0 {
            events.warning(&training.line());
        }
        events
            .detail(&format!("training took {}", human_duration(Duration::from_secs_f64(training.seconds))));
        self.training.lock().unwrap_or_else(PoisonError::into_inner).insert(output.to_owned(), training);
        let file = gguf_container::Model::open(untrained).map_err(|error| Error::at(untrained, error))?;
        let trained = TrainedFile { file, blocks: trained.blocks };
        *self.encoder.trained.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(trained));
        Ok(TrainedBlocks(&self.encoder))
    }
}

/// Notes which quantized matrices keep their scales.
fn note_untrained(student: &Model, untrained: &[String], events: &dyn Events) {
    let of = student.file().tensors().count();
    if let Some((first, rest)) = untrained.split_at_checked(untrained.len().min(NAMED)) {
        let more = if rest.is_empty() { String::new() } else { format!(" and {} more", rest.len()) };
        if !first.is_empty() {
            events.note(&format!(
                "{} of {of} tensors keep their scales (embeddings, the output matrix, experts): {}{more}",
                untrained.len(),
                first.join(", ")
            ));
        }
    }
}

//! Training of scales: the rounded file is trained next to the output, and its blocks are copied.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use gguf_conversion::EncodedRows;
use gguf_quant::Level;
use gguf_refinement::{
    TrainingOptions,
    moments::{Texts, Watch as _},
};
use gguf_runtime::Model;
use serde::Serialize;

use super::gathered::Progress;
use crate::{error::Error, events::Events};

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
    /// Seconds that it took.
    #[serde(skip)]
    pub seconds: f64,
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

/// A place for a trained file, whose blocks replace rounding while it is there.
#[derive(Debug, Default)]
pub struct Slot(Mutex<Option<Arc<TrainedFile>>>);

impl Slot {
    /// The file.
    pub fn get(&self) -> Option<Arc<TrainedFile>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Puts a file there until the guard is dropped.
    pub fn fill(&self, file: TrainedFile) -> TrainedBlocks<'_> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(file));
        TrainedBlocks(self)
    }
}

/// Has blocks copied from a trained file until it is dropped.
#[derive(Debug)]
pub struct TrainedBlocks<'a>(&'a Slot);

impl Drop for TrainedBlocks<'_> {
    fn drop(&mut self) {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// Trains the scales of a student, the file at `untrained`, against its base.
///
/// # Errors
/// A model without a backward pass; texts of fewer than two chunks; an interruption.
pub fn train(
    base: &Model,
    student: &Model,
    untrained: &Path,
    texts: &Texts,
    level: Level,
    events: &dyn Events,
) -> Result<(Training, TrainedFile), Error> {
    let began = Instant::now();
    let options = TrainingOptions { level, ..TrainingOptions::default() };
    let mut progress = Progress::new("steps of training", events);
    let mut progress = |done, of| progress.progress(done, of);
    let trained = gguf_refinement::train(base, student, texts, &options, &mut progress)
        .map_err(|error| Error::at(untrained, error))?;
    note_untrained(student, &trained.untrained, events);
    let training = Training {
        held_out: trained.held_out,
        kept_pass: trained.best,
        matrices: trained.blocks.len(),
        seconds: began.elapsed().as_secs_f64(),
    };
    if training.kept_pass == 0 {
        events.warning(training.line());
    }
    let file = gguf_container::Model::open(untrained).map_err(|error| Error::at(untrained, error))?;
    Ok((training, TrainedFile { file, blocks: trained.blocks }))
}

/// Notes which quantized matrices keep their scales.
fn note_untrained(student: &Model, untrained: &[String], events: &dyn Events) {
    let of = student.file().tensors().count();
    if let Some((first, rest)) = untrained.split_at_checked(untrained.len().min(NAMED)) {
        let more = if rest.is_empty() { String::new() } else { format!(" and {} more", rest.len()) };
        if !first.is_empty() {
            events.note(format!(
                "{} of {of} tensors keep their scales (embeddings, the output matrix, experts): {}{more}",
                untrained.len(),
                first.join(", ")
            ));
        }
    }
}

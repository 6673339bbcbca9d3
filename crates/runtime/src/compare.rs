//! Compares files with their base over the same text, chunk by chunk.
//!
//! The comparison is that of the reference: predictions in the second half of each chunk
//! ([`text_chunks`]). No file of logits is needed; the reference's file can replace the base, and can be
//! written.

use std::ops::Range;

use gguf_container::PartNumber;
use rayon::prelude::*;

use crate::{
    Error, Model,
    chunks::{Chunk, LogitBatches, Settings, Target, part_chunks, text_chunks},
    logits_file::{LogitsFile, Writer},
    nonfinite::{not_finite_prediction, place_of},
    stats::{Position, Prediction, compare_packed},
};

/// Base of the comparison.
pub enum Base<'a> {
    /// A model.
    Model(&'a Model),
    /// Predictions of a model that ran before.
    File(&'a LogitsFile),
}

impl Base<'_> {
    /// The chunks of one part of a comparison, as [`part_chunks`] of all the models that run.
    pub fn part_chunks(&self, others: &[Model], chunks: &[Chunk], part: PartNumber) -> Range<usize> {
        let base = match self {
            Base::Model(model) => Some(*model),
            Base::File(_) => None,
        };
        part_chunks(&base.into_iter().chain(others).collect::<Vec<_>>(), chunks, part)
    }

    fn n_vocab(&self) -> usize {
        match self {
            Base::Model(model) => model.n_vocab(),
            Base::File(file) => file.layout().n_vocab,
        }
    }
}

/// The chunks of a file of predictions, as `model` is to read them.
///
/// # Errors
/// [`Error::LogitsFile`] for tokens that are not in its vocabulary; as [`text_chunks`].
pub fn file_chunks(model: &Model, file: &LogitsFile, n_chunks: Option<usize>) -> Result<Vec<Chunk>, Error> {
    let settings = Settings { context: file.layout().context, n_chunks, stride: None };
    text_chunks(model, &file.tokens()?, &settings)
}

/// Step of a comparison.
#[derive(Debug)]
pub enum Step<'a> {
    /// One of the others, or the base (`None`), begins to run over the next chunks.
    Runs(Option<usize>),
    /// A batch of rows was compared.
    Compared {
        /// Chunks that are complete.
        n_chunks: usize,
        /// All positions so far, a list per file.
        found: &'a [Vec<Position>],
    },
}

/// Runs the base and the others over the chunks in `range`. `watch` receives each step, and returns whether to
/// continue. `writer` receives the base's logits, if the base is a model.
///
/// Returns the positions of each of the others, (chunks of the range, n_positions) in order.
///
/// # Errors
/// [`Error::VocabDiffers`], [`Error::NotFiniteResult`], and as [`Model::run`] and [`Model::logits`].
pub fn run(
    base: &Base<'_>,
    others: &[Model],
    (chunks, range): (&[Chunk], Range<usize>),
    k: usize,
    writer: Option<&Writer>,
    watch: &mut dyn FnMut(Step<'_>) -> bool,
) -> Result<Vec<Vec<Position>>, Error> {
    let n_vocab = base.n_vocab();
    let in_other = |index| move |error| Error::OfOther { index, error: Box::new(error) };
    if let Some((index, other)) = others.iter().enumerate().find(|(_, other)| other.n_vocab() != n_vocab) {
        return Err(in_other(index)(Error::VocabDiffers { expected: n_vocab, found: other.n_vocab() }));
    }
    let base_model = match base {
        Base::Model(model) => Some(*model),
        Base::File(_) => None,
    };
    // The base, if it is a model, and then the others: their numbers in a batch.
    let models: Vec<&Model> = base_model.into_iter().chain(others).collect();
    base_model.into_iter().try_for_each(Model::need_next_token)?;
    for (index, other) in others.iter().enumerate() {
        other.need_next_token().map_err(in_other(index))?;
    }
    let first_other = models.len() - others.len();
    let (mut base_logits, mut logits) = (Vec::new(), Vec::new());
    let mut found: Vec<Vec<Position>> = vec![Vec::new(); others.len()];
    let mut batches = LogitBatches::new(models, chunks, range);
    while let Some(batch) =
        batches.next_watched(None, &mut |index| watch(Step::Runs(index.checked_sub(first_other))))?
    {
        let targets: Vec<Target> = batch.targets().collect();
        if let Some(model) = base_model {
            batch.logits(0, None, &mut base_logits)?;
            if let Some(writer) = writer {
                model.install(|| {
                    let rows = base_logits.par_chunks(n_vocab).zip(&targets);
                    rows.try_for_each(|(row, at)| writer.position(at.chunk, at.index, row))
                })?;
            }
        }
        // Computed once for all files.
        let predictions: Vec<Prediction<'_>> = base_model.map_or_else(Vec::new, |model| {
            let rows = base_logits.par_chunks(n_vocab);
            model.install(|| rows.map(|row| Prediction::of(row, k)).collect())
        });
        for (index, (model, found)) in others.iter().zip(&mut found).enumerate() {
            batch.logits(first_other + index, None, &mut logits).map_err(in_other(index))?;
            let compare = |(row, (at, other)): (usize, (&Target, &[f32]))| {
                let token = at.token as usize;
                match base {
                    Base::Model(_) => predictions[row].compare(other, token),
                    Base::File(file) => {
                        compare_packed(&file.position(at.chunk, at.index).decode(), other, token, k)
                    }
                }
            };
            let compared: Vec<Position> = model.install(|| {
                targets.par_iter().zip(logits.par_chunks(n_vocab)).enumerate().map(compare).collect()
            });
            if let Some(row) = compared.iter().position(|position| !position.is_finite()) {
                // Whose fault it is shows in the two likelihoods.
                let is_of_base = !compared[row].nll_base.is_finite();
                return Err(match base_model.filter(|_| is_of_base) {
                    Some(base) => not_finite_prediction(base, &targets[row]),
                    // Saved predictions have no weights that could be searched.
                    None if is_of_base => {
                        Error::NotFiniteResult { place: place_of(&targets[row]), weight: None }
                    }
                    None => in_other(index)(not_finite_prediction(model, &targets[row])),
                });
            }
            found.extend(compared);
        }
        if !watch(Step::Compared { n_chunks: batch.n_chunks_done(), found: &found }) {
            break;
        }
    }
    Ok(found)
}

//! A base and files made of it, run together over the same text, window by window.
//!
//! What is compared is what the reference compares: the predictions behind the second half of
//! each window ([`perplexity::cut`](crate::perplexity::cut)). No file of logits is written on
//! the way; the reference's can be read in the place of the base, and written.

use rayon::prelude::*;

use crate::{
    Error, Hidden, Model, Sequence,
    logits_file::{LogitsFile, Writer},
    perplexity::{Cut, Settings, cut},
    stats::{Position, compare_logits, compare_packed},
};

/// What the others are compared with.
pub enum Base<'a> {
    /// A model.
    Model(&'a Model),
    /// Predictions of a model that ran before.
    File(&'a LogitsFile),
}

impl Base<'_> {
    fn n_vocab(&self) -> usize {
        match self {
            Base::Model(model) => model.n_vocab(),
            Base::File(file) => file.layout().n_vocab,
        }
    }
}

/// The windows of a file of predictions, as `model` is to read them.
///
/// # Errors
/// [`Error::LogitsFile`] for tokens that are none, [`Error::TooShort`] for a single window.
pub fn cuts_of_file(model: &Model, file: &LogitsFile, n_windows: Option<usize>) -> Result<Vec<Cut>, Error> {
    let settings = Settings { context: file.layout().context, windows: n_windows, stride: None };
    cut(model, &file.tokens()?, &settings)
}

/// Runs the base and the others over all windows; `watch` sees all positions so far, a list for
/// each of the others, after every batch of windows, and says whether to go on. `writer` gets the
/// base's predictions, if the base is a model.
///
/// Returns the positions of each of the others, (n_windows, n_positions) in order.
///
/// # Errors
/// [`Error::VocabDiffers`], and as [`Model::run`] and [`Model::logits`].
pub fn run(
    base: &Base<'_>,
    others: &[Model],
    cuts: &[Cut],
    k: usize,
    writer: Option<&Writer>,
    watch: &mut dyn FnMut(usize, &[Vec<Position>]) -> bool,
) -> Result<Vec<Vec<Position>>, Error> {
    let n_vocab = base.n_vocab();
    if let Some(found) = others.iter().map(Model::n_vocab).find(|found| *found != n_vocab) {
        return Err(Error::VocabDiffers { expected: n_vocab, found });
    }
    let base_model = match base {
        Base::Model(model) => Some(*model),
        Base::File(_) => None,
    };
    let all = || base_model.into_iter().chain(others);
    all().try_for_each(Model::need_next_token)?;
    let context = cuts.first().map_or(1, |cut| cut.tokens.len());
    let sequences_at_once = all().map(|model| model.sequences_at_once(context)).min().unwrap_or(1);
    let rows_at_once = all().map(Model::logit_rows_at_once).min().unwrap_or(1);
    let (mut base_logits, mut logits) = (Vec::new(), Vec::new());
    let mut found: Vec<Vec<Position>> = vec![Vec::new(); others.len()];
    for (batch, cuts) in cuts.chunks(sequences_at_once).enumerate() {
        let sequences: Vec<Sequence<'_>> = cuts.iter().map(Cut::sequence).collect();
        let base_hidden = base_model.map(|model| model.run(&sequences, None)).transpose()?;
        let hidden: Vec<Hidden> =
            others.iter().map(|model| model.run(&sequences, None)).collect::<Result<_, _>>()?;
        let targets: Vec<u32> = cuts.iter().flat_map(|cut| cut.targets.iter().copied()).collect();
        let n_positions = cuts[0].targets.len();
        // Where a row of this batch is: its window, and its place among the counted positions.
        let place = |row: usize| (batch * sequences_at_once + row / n_positions, row % n_positions);
        for start in (0..targets.len()).step_by(rows_at_once) {
            let rows = start..(start + rows_at_once).min(targets.len());
            let n_floats = rows.len() * n_vocab;
            if let (Some(model), Some(hidden)) = (base_model, &base_hidden) {
                base_logits.resize(n_floats, 0.0);
                model.logits(hidden, rows.clone(), None, &mut base_logits)?;
                if let Some(writer) = writer {
                    model.install(|| {
                        base_logits.par_chunks(n_vocab).zip(rows.clone()).try_for_each(|(row, at)| {
                            let (window, index) = place(at);
                            writer.position(window, index, row)
                        })
                    })?;
                }
            }
            for ((model, hidden), positions) in others.iter().zip(&hidden).zip(&mut found) {
                logits.resize(n_floats, 0.0);
                model.logits(hidden, rows.clone(), None, &mut logits)?;
                let compare = |(at, row): (usize, &[f32])| {
                    let token = targets[start + at] as usize;
                    match base {
                        Base::Model(_) => {
                            compare_logits(&base_logits[at * n_vocab..][..n_vocab], row, token, k)
                        }
                        Base::File(file) => {
                            let (window, index) = place(start + at);
                            compare_packed(&file.position(window, index), row, token, k)
                        }
                    }
                };
                let compared: Vec<Position> =
                    model.install(|| logits.par_chunks(n_vocab).enumerate().map(compare).collect());
                positions.extend(compared);
            }
        }
        if !watch(batch * sequences_at_once + cuts.len(), &found) {
            break;
        }
    }
    Ok(found)
}

//! A model run a step at a time: a text passes one layer, then the next.
//!
//! Statistics need memory for one layer at a time, and each weight is still decoded once per batch.

use std::{
    io::{self, Read, Write},
    ops::Range,
    sync::Arc,
};

use ndarray::{ArrayViewMut2, Axis, s};
use rayon::prelude::*;

use crate::{
    Error, Hidden, Model, Observer, Sequence,
    observer::{Multiplied, Part},
    ops::{Buffers, Rows, Selection, softmax},
    pass::Carried,
};

/// State of a batch of sequences between two steps: its residual streams, and other data for later layers.
/// Empty before the first step.
#[derive(Debug, Clone, Default)]
pub struct Between {
    streams: Vec<Rows>,
    carried: Carried,
}

impl Between {
    fn all(&self) -> impl Iterator<Item = &Rows> {
        let Carried { first_values, per_layer_inputs, embedded, selection: _, adapter_of_row: _, key_values } =
            &self.carried;
        let pairs = key_values.values().flat_map(|(key, value)| [key, value]);
        self.streams.iter().chain(first_values).chain(per_layer_inputs).chain(embedded).chain(pairs)
    }

    fn all_mut(&mut self) -> impl Iterator<Item = &mut Rows> {
        let Carried { first_values, per_layer_inputs, embedded, selection: _, adapter_of_row: _, key_values } =
            &mut self.carried;
        let pairs = key_values.values_mut().flat_map(|(key, value)| [key, value]);
        self.streams.iter_mut().chain(first_values).chain(per_layer_inputs).chain(embedded).chain(pairs)
    }

    /// Bytes that its values take.
    pub fn n_bytes(&self) -> u64 {
        self.all().map(|rows| rows.len() as u64 * 4).sum()
    }

    /// Writes all values: f32, little-endian.
    pub fn write(&self, to: &mut dyn Write) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(4 * CHUNK_ELEMS);
        for values in self.all().flat_map(|rows| rows.as_slice().chunks(CHUNK_ELEMS)) {
            // Little-endian whatever the machine is, though only this process reads it again.
            bytes.clear();
            bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
            to.write_all(&bytes)?;
        }
        Ok(())
    }

    /// The shapes of the values, for [`Between::read`].
    pub fn shapes(&self) -> BetweenShapes {
        let shape = |rows: &Rows| (rows.nrows(), rows.ncols());
        let Carried { first_values, per_layer_inputs, embedded, selection, adapter_of_row, key_values } =
            &self.carried;
        BetweenShapes {
            streams: self.streams.iter().map(shape).collect(),
            first_values: first_values.as_ref().map(shape),
            per_layer_inputs: per_layer_inputs.as_ref().map(shape),
            embedded: embedded.as_ref().map(shape),
            selection: selection.clone(),
            adapter_of_row: adapter_of_row.clone(),
            key_values: key_values
                .iter()
                .map(|(index, (key, value))| (*index, shape(key), shape(value)))
                .collect(),
        }
    }

    /// Reads what [`Between::write`] wrote.
    pub fn read(shapes: &BetweenShapes, from: &mut dyn Read) -> io::Result<Between> {
        let zeros = |shape: &RowsShape| Rows::zeros(shape.0, shape.1);
        let pair = |(index, key, value): &(usize, _, _)| (*index, (zeros(key), zeros(value)));
        let mut between = Between {
            streams: shapes.streams.iter().map(zeros).collect(),
            carried: Carried {
                first_values: shapes.first_values.as_ref().map(zeros),
                per_layer_inputs: shapes.per_layer_inputs.as_ref().map(zeros),
                embedded: shapes.embedded.as_ref().map(zeros),
                selection: shapes.selection.clone(),
                adapter_of_row: shapes.adapter_of_row.clone(),
                key_values: shapes.key_values.iter().map(pair).collect(),
            },
        };
        let mut bytes = vec![0; 4 * CHUNK_ELEMS];
        for values in between.all_mut().flat_map(|rows| rows.as_mut_slice().chunks_mut(CHUNK_ELEMS)) {
            let bytes = &mut bytes[..4 * values.len()];
            from.read_exact(bytes)?;
            for (value, bytes) in values.iter_mut().zip(bytes.as_chunks::<4>().0) {
                *value = f32::from_le_bytes(*bytes);
            }
        }
        Ok(between)
    }
}

/// Turns logits (rows, n_vocab) into probabilities.
fn softmax_rows(mut logits: ArrayViewMut2<'_, f32>) {
    logits.axis_iter_mut(Axis(0)).into_par_iter().for_each(|mut row| {
        softmax(row.as_slice_mut().expect("whole rows are contiguous"), None);
    });
}

/// Values that are written or read at once.
const CHUNK_ELEMS: usize = 1 << 16;

/// (n_rows, width).
type RowsShape = (usize, usize);

/// The shapes of what a batch leaves between two steps.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BetweenShapes {
    streams: Vec<RowsShape>,
    first_values: Option<RowsShape>,
    per_layer_inputs: Option<RowsShape>,
    embedded: Option<RowsShape>,
    /// Not a shape, but a bit for each key is little.
    selection: Option<Arc<Selection>>,
    /// Not a shape either: one number for each row.
    adapter_of_row: Option<Arc<Vec<usize>>>,
    key_values: Vec<(usize, RowsShape, RowsShape)>,
}

/// Runs batches of sequences a step at a time, in the same memory.
pub struct Steps<'m> {
    model: &'m Model,
    buffers: Buffers,
}

impl<'m> Steps<'m> {
    /// The steps of a model.
    ///
    /// # Errors
    /// [`Error::NoFeatures`] for a model of sound.
    pub fn new(model: &'m Model) -> Result<Steps<'m>, Error> {
        // Sound has no tokens to give to a first step.
        if model.audio_input().is_some() {
            return Err(Error::NoFeatures { architecture: model.architecture().to_owned() });
        }
        Ok(Steps { model, buffers: Buffers::default() })
    }

    /// Number of steps: for a decoder, before the layers, each layer, and after the layers; for others, one.
    pub fn n_steps(&self) -> usize {
        self.model.prepared().graph.n_steps()
    }

    /// Maximum number of rows to run together: the number of one-token sequences that
    /// [`Model::sequences_at_once`] allows.
    pub fn rows_at_once(&self) -> usize {
        self.model.sequences_at_once(1)
    }

    /// Bytes that are alive at once while this many rows run, about: activations, and weights that are decoded.
    pub fn working_bytes(&self, n_rows: usize) -> u64 {
        /// The tiles of decoded weights (`ops::matmul`).
        const TILES: u64 = 16 << 20;
        n_rows as u64 * self.model.prepared().row_floats as u64 * 4 + TILES
    }

    /// Runs step `index` of complete sequences, whose positions all count, on what the step before left. The observer of the last
    /// step sees the rows of the output matrix too, if the model has one.
    pub fn run(
        &self,
        index: usize,
        sequences: &[&[u32]],
        between: Between,
        mut observer: Option<&mut dyn Observer>,
    ) -> Result<Between, Error> {
        let prepared = self.model.prepared();
        let sequences: Vec<Sequence<'_>> = sequences.iter().map(|tokens| Sequence::new(tokens)).collect();
        let Between { streams, carried } = between;
        // A reborrow: the head's rows are observed after the pass.
        let seen = observer.as_mut().map(|observer| &mut **observer as &mut dyn Observer);
        let next = self.model.batch(&sequences, seen, |pass| {
            let mut pass = pass.resume(carried, &self.buffers);
            let streams = self.model.install(|| prepared.graph.step(index, streams, &mut pass))?;
            // Out of the buffers that passes share: a batch may wait for a complete step of all others.
            let streams = streams.into_iter().map(Rows::detached).collect();
            Ok(Between { streams, carried: pass.carry() })
        })?;
        // The output matrix is not part of the graph: it is only applied for logits.
        let is_last = index + 1 == self.n_steps();
        if let (true, Some(observer), Some(head)) = (is_last, observer, &prepared.head) {
            let by = [(head.weight.name.as_str(), Part::Whole)];
            for rows in next.streams.iter().map(Rows::as_slice) {
                let call = Multiplied { by: &by, rows, n_in: head.weight.n_in, tokens: None };
                self.model.install(|| observer.multiplied(&call));
            }
        }
        Ok(next)
    }

    /// Fails if the backward pass does not support the model.
    ///
    /// # Errors
    /// [`Error::NoBackwardPass`], and those of [`Model::need_next_token`].
    pub fn need_backward(&self) -> Result<(), Error> {
        self.model.need_next_token()?;
        match self.model.prepared().graph.no_backward() {
            None => Ok(()),
            Some(part) => {
                Err(Error::NoBackwardPass { architecture: self.model.architecture().to_owned(), part })
            }
        }
    }

    /// Gradients of `-ln p(target)` after the last step, for each row. `choose` returns the target of a row,
    /// counted over all sequences, given the model's probabilities (n_vocab).
    ///
    /// # Panics
    /// If a target is not a token.
    pub fn loss_back(
        &self,
        last: &Between,
        choose: &mut (dyn FnMut(usize, &[f32]) -> usize + Send),
    ) -> Result<Between, Error> {
        self.need_backward()?;
        Ok(self.back_from_logits(last, &mut |rows, mut gradients| {
            // d(-ln p(target)) / d logits = p - 1 at the target, p elsewhere.
            softmax_rows(gradients.view_mut());
            for (row, mut p) in rows.zip(gradients.axis_iter_mut(Axis(0))) {
                let target = choose(row, p.as_slice().expect("whole rows are contiguous"));
                p[target] -= 1.0;
            }
        }))
    }

    /// Gradients of the KL divergence from a base after the last step, for each row, in nats. `base_last` is what
    /// the last step of `base`, which has the same vocabulary, left for the same tokens. A row of logits of both
    /// is alive at a time for each of [`Model::logit_rows_at_once`].
    ///
    /// # Errors
    /// As [`Steps::need_backward`]; [`Error::VocabDiffers`] for a base with another number of tokens.
    pub fn divergence_back(
        &self,
        last: &Between,
        base: &Steps<'_>,
        base_last: &Between,
    ) -> Result<Between, Error> {
        self.need_backward()?;
        let (Some(base_head), [base_x]) = (&base.model.prepared().head, &base_last.streams[..]) else {
            return Ok(Between::default());
        };
        let n_vocab = self.model.n_vocab();
        if base.model.n_vocab() != n_vocab {
            return Err(Error::VocabDiffers { expected: base.model.n_vocab(), found: n_vocab });
        }
        let mut base_logits = Rows::zeros(self.model.logit_rows_at_once().min(base_x.nrows()), n_vocab);
        Ok(self.back_from_logits(last, &mut |rows, mut gradients| {
            // d KL(p_base, p) / d logits = p - p_base.
            let mut base_logits = base_logits.slice_mut(s![..rows.len(), ..]);
            base_head.run(base_x.slice(s![rows, ..]), self.model.activations(), base_logits.view_mut());
            softmax_rows(gradients.view_mut());
            softmax_rows(base_logits.view_mut());
            gradients -= &base_logits;
        }))
    }

    /// Gradients after the last step from those of logits, in groups of rows: `into_gradients` receives the rows of a group and
    /// their logits, which it turns into gradients.
    fn back_from_logits(
        &self,
        last: &Between,
        into_gradients: &mut (dyn FnMut(Range<usize>, ArrayViewMut2<'_, f32>) + Send),
    ) -> Between {
        // A graph with a backward pass has one stream, and a model that predicts tokens has a head.
        let (Some(head), [x]) = (&self.model.prepared().head, &last.streams[..]) else {
            return Between::default();
        };
        let (n_vocab, at_once) = (self.model.n_vocab(), self.model.logit_rows_at_once());
        let mut gradients = Rows::zeros(x.nrows(), x.ncols());
        self.model.install(|| {
            let mut logits = Rows::zeros(at_once.min(x.nrows()), n_vocab);
            let mut grad_logits = Rows::zeros(at_once.min(x.nrows()), n_vocab);
            for first in (0..x.nrows()).step_by(at_once) {
                let rows = first..x.nrows().min(first + at_once);
                let (mut logits, mut grad_logits) =
                    (logits.slice_mut(s![..rows.len(), ..]), grad_logits.slice_mut(s![..rows.len(), ..]));
                head.run(x.slice(s![rows.clone(), ..]), self.model.activations(), logits.view_mut());
                grad_logits.assign(&logits);
                into_gradients(rows.clone(), grad_logits.view_mut());
                head.backward(logits.view(), grad_logits, gradients.slice_mut(s![rows, ..]));
            }
        });
        Between { streams: vec![gradients], carried: Carried::default() }
    }

    /// Backward pass through step `index`: `entered` is the previous step's output, and `gradients` of the
    /// step's own output become those of its input. The layer runs again, and the observer receives the
    /// gradients at the output of each matrix: the rows that go into its transpose, with `n_in` the rows of
    /// the matrix.
    ///
    /// # Errors
    /// As [`Steps::need_backward`] and [`Model::run`].
    pub fn backward(
        &self,
        index: usize,
        sequences: &[&[u32]],
        entered: Between,
        gradients: Between,
        observer: Option<&mut dyn Observer>,
    ) -> Result<Between, Error> {
        self.need_backward()?;
        let sequences: Vec<Sequence<'_>> = sequences.iter().map(|tokens| Sequence::new(tokens)).collect();
        let stream = |mut between: Between| between.streams.pop().unwrap_or_default();
        let (entered, gradients) = (stream(entered), stream(gradients));
        self.model.batch(&sequences, observer, |pass| {
            let mut pass = pass.resume(Carried::default(), &self.buffers);
            let graph = &self.model.prepared().graph;
            let gradients = self.model.install(|| graph.step_back(index, entered, gradients, &mut pass));
            Ok(Between { streams: vec![gradients.detached()], carried: Carried::default() })
        })
    }

    /// Some rows of what the last step left, counted over all sequences, ready for [`Model::logits`].
    pub fn hidden(&self, last: &Between, rows: &[usize]) -> Hidden {
        Hidden::of_rows(last.streams.first().map_or_else(|| Rows::zeros(0, 0), |x| x.select_rows(rows)))
    }
}

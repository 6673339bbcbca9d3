//! What a graph is, and what it works with.

use std::{ops::Range, sync::Arc};

use ndarray::{ArrayView2, ArrayViewMut2, Axis, parallel::prelude::*, s};
use quant::Level;
use tensor::DType;

use crate::{
    Activations, Error, Features, Observer,
    model::{Part, Session},
    ops::{Attention, Product, Queries, Rope, Rows, Turns, Window, mul_mat, round, round_into},
    weights::Weight,
};

/// A model that turns tokens into rows.
pub(crate) trait Graph: Send + Sync {
    /// Rows of the wanted positions, ready for the output matrix: (n_wanted, n_embd).
    fn run(&self, pass: &mut Pass<'_, '_>) -> Result<Rows, Error>;

    /// Whether it reads a prompt and then answers it, where others continue it.
    fn answers(&self) -> bool {
        false
    }

    /// What it makes of a prompt to look at while it answers, where it does.
    fn encode(&self, _pass: &mut Pass<'_, '_>) -> Result<Option<Encoded>, Error> {
        Ok(None)
    }

    /// The features that it must hear before it reads tokens, where it must: their bands and frames.
    fn hears(&self) -> Option<(usize, usize)> {
        None
    }

    /// Keys and values for each layer that reads tokens, of features in the shape that [`Graph::hears`] gives;
    /// the pass has a row for every second frame.
    fn hear(&self, _features: Features<'_>, _pass: &mut Pass<'_, '_>) -> Result<Vec<(Rows, Rows)>, Error> {
        Ok(Vec::new())
    }
}

/// A prompt that was read.
pub(crate) struct Encoded {
    /// Keys and values for each layer that answers.
    pub across: Vec<(Rows, Rows)>,
    /// The token that begins every answer.
    pub start: u32,
}

/// A graph with what lies around it.
pub(crate) struct Prepared {
    pub graph: Box<dyn Graph>,
    /// None for what predicts no tokens.
    pub head: Option<Head>,
    pub n_vocab: usize,
    pub n_embd: usize,
    /// Floats that are alive at once for each token, about.
    pub row_floats: usize,
}

/// From a row to its logits.
pub(crate) struct Head {
    /// (n_vocab, n_embd).
    pub weight: Weight,
    /// (n_vocab).
    pub bias: Option<Vec<f32>>,
    /// What logits are multiplied with.
    pub scale: f32,
    /// `cap * tanh(x / cap)` of the scaled logits.
    pub soft_cap: Option<f32>,
}

impl Head {
    /// `x (n, n_embd) -> out (n, n_vocab)`.
    pub fn run(&self, x: ArrayView2<'_, f32>, activations: Activations, mut out: ArrayViewMut2<'_, f32>) {
        let product = Product { weight: &self.weight, index: 0, out: out.view_mut() };
        match self.weight.activation_dtype().filter(|_| activations == Activations::Rounded) {
            None => mul_mat(x, vec![product]),
            Some(dtype) => {
                let mut rounded = Rows::zeros(x.raw_dim());
                round_into(x, dtype, &mut rounded);
                mul_mat(rounded.view(), vec![product]);
            }
        }
        if self.bias.is_none() && self.scale == 1.0 && self.soft_cap.is_none() {
            return;
        }
        out.axis_iter_mut(Axis(0)).into_par_iter().for_each(|mut row| {
            if let Some(bias) = &self.bias {
                row.iter_mut().zip(bias).for_each(|(x, bias)| *x += bias);
            }
            match self.soft_cap {
                Some(cap) => row.iter_mut().for_each(|x| *x = cap * (*x * self.scale / cap).tanh()),
                None => row.iter_mut().for_each(|x| *x *= self.scale),
            }
        });
    }
}

/// The rows of one window in a batch.
#[derive(Debug, Clone)]
pub(crate) struct Span {
    /// Its rows.
    pub rows: Range<usize>,
    /// The position of its first row.
    pub position: usize,
    /// The wanted ones, counted in the batch.
    pub wanted: Range<usize>,
}

/// One run over a batch.
pub(crate) struct Pass<'a, 'o> {
    /// Tokens of all windows, one after the other.
    pub tokens: Vec<u32>,
    pub spans: Vec<Span>,
    positions: Vec<u32>,
    /// Rows are turned alike in many layers.
    turns: Vec<(Rope, Arc<Turns>)>,
    /// What goes into products with weights.
    pub activations: Activations,
    observer: Option<&'o mut dyn Observer>,
    /// What earlier runs of the only window left behind.
    session: Option<&'a mut Session>,
    /// Values of the first layer, for those that mix them into their own (RWKV 7): (n, n_embd).
    pub first_values: Option<Rows>,
    /// Buffers that are done with.
    free: Vec<Vec<f32>>,
}

impl<'a, 'o> Pass<'a, 'o> {
    pub fn new(
        tokens: Vec<u32>,
        spans: Vec<Span>,
        observer: Option<&'o mut dyn Observer>,
        session: Option<&'a mut Session>,
    ) -> Self {
        let positions =
            spans.iter().flat_map(|span| (span.position..).take(span.rows.len())).map(|p| p as u32).collect();
        Pass {
            tokens,
            spans,
            positions,
            turns: Vec::new(),
            activations: Activations::F32,
            observer,
            session,
            first_values: None,
            free: Vec::new(),
        }
    }

    /// The position of every row in its window.
    pub fn positions(&self) -> &[u32] {
        &self.positions
    }

    /// What the rows are turned by.
    pub fn turns(&mut self, rope: &Rope) -> Arc<Turns> {
        if let Some((_, turns)) = self.turns.iter().find(|(known, _)| known == rope) {
            return turns.clone();
        }
        let turns = Arc::new(rope.turns(&self.positions));
        self.turns.push((rope.clone(), turns.clone()));
        turns
    }

    /// Positions from the first that any window may see to behind the last.
    pub fn end(&self) -> usize {
        self.spans.iter().map(|span| span.position + span.rows.len()).max().unwrap_or(0)
    }

    /// Rows with whatever is in them, out of memory that is mapped already: fresh pages would cost a
    /// tenth of the time.
    pub fn take(&mut self, n_rows: usize, width: usize) -> Rows {
        let len = n_rows * width;
        let fits = |buffer: &Vec<f32>| buffer.capacity() >= len && buffer.capacity() / 8 <= len;
        // One of the same length needs no filling.
        let same = self.free.iter().position(|buffer| buffer.len() == len);
        let mut buffer = match same.or_else(|| self.free.iter().position(fits)) {
            Some(at) => self.free.swap_remove(at),
            None => Vec::with_capacity(len),
        };
        buffer.resize(len, 0.0);
        Rows::from_shape_vec((n_rows, width), buffer).expect("the buffer is as long as the shape says")
    }

    /// Gives rows back to be taken again.
    pub fn give(&mut self, rows: Rows) {
        const KEPT: usize = 8;
        if self.free.len() < KEPT {
            self.free.push(rows.into_raw_vec_and_offset().0);
        }
    }

    /// Keys and values of a prompt that was read before, for each layer.
    pub fn across(&self) -> Option<Arc<Vec<(Rows, Rows)>>> {
        self.session.as_ref().and_then(|session| session.across.clone())
    }

    /// Some columns of `from` (n, width): (n, n_columns).
    pub fn take_columns(&mut self, from: &Rows, columns: Range<usize>) -> Rows {
        let mut rows = self.take(from.nrows(), columns.len());
        rows.assign(&from.slice(s![.., columns]));
        rows
    }

    /// The rows of each window.
    pub fn windows(&self) -> Vec<Range<usize>> {
        self.spans.iter().map(|span| span.rows.clone()).collect()
    }

    /// What `part` of layer `index` remembers of the tokens before each window: `len` floats, zeros
    /// where there were none.
    pub fn recall(&mut self, index: usize, part: usize, len: usize) -> Vec<Vec<f32>> {
        match &mut self.session {
            Some(session) => vec![session.recall(index, part, len)],
            None => vec![vec![0.0; len]; self.spans.len()],
        }
    }

    /// Keeps what [`Pass::recall`] gave and the tokens of this run changed.
    pub fn remember(&mut self, index: usize, part: usize, states: Vec<Vec<f32>>) {
        if let (Some(session), Some(state)) = (&mut self.session, states.into_iter().next()) {
            session.remember(index, part, state);
        }
    }

    /// The rows that are wanted, in order.
    pub fn wanted_rows(&self) -> Vec<usize> {
        self.spans.iter().flat_map(|span| span.wanted.clone()).collect()
    }

    /// Rows of the embedding `(n_vocab, n_embd)`: (n, n_embd).
    pub fn embed(&self, embedding: &Weight) -> Result<Rows, Error> {
        let mut rows = Rows::zeros((self.tokens.len(), embedding.n_in));
        for (id, mut row) in self.tokens.iter().zip(rows.rows_mut()) {
            let at = *id as usize;
            if at >= embedding.n_out {
                return Err(Error::TokenRange { id: *id, n_vocab: embedding.n_out });
            }
            let row = row.as_slice_mut().expect("activations are contiguous");
            embedding.decode(Level::detect(), at..at + 1, row).expect("a weight of a checked type decodes");
        }
        Ok(rows)
    }

    /// Rows of learned positions `(n_positions, n_embd)`: (n, n_embd).
    pub fn embed_positions(&self, embedding: &Weight) -> Result<Rows, Error> {
        if self.end() > embedding.n_out {
            return Err(Error::TooLong { found: self.end(), limit: embedding.n_out });
        }
        let mut rows = Rows::zeros((self.positions.len(), embedding.n_in));
        for (position, mut row) in self.positions.iter().zip(rows.rows_mut()) {
            let at = *position as usize;
            let row = row.as_slice_mut().expect("activations are contiguous");
            embedding.decode(Level::detect(), at..at + 1, row).expect("a weight of a checked type decodes");
        }
        Ok(rows)
    }

    /// Products of weights with the same input, shown to the observer.
    pub fn mul_mat(&mut self, x: ArrayView2<'_, f32>, mut products: Vec<Product<'_>>) {
        if let Some(observer) = &mut self.observer {
            let rows = x.as_slice().expect("activations are contiguous");
            for product in &products {
                let weight = product.weight;
                let (index, n) = (product.index, weight.n_stack);
                let part = match weight.is_by_head {
                    true => Part::Head { index, n },
                    false if n > 1 => Part::Expert { index, n },
                    false => Part::Whole,
                };
                observer.mul_mat(&weight.name, part, rows, weight.n_in);
            }
        }
        if self.activations == Activations::F32 {
            return mul_mat(x, products);
        }
        // Weights of different types see the same input rounded differently.
        while let Some(dtype) = products.first().map(|product| product.weight.activation_dtype()) {
            let (same, others) = products.into_iter().partition(|it| it.weight.activation_dtype() == dtype);
            products = others;
            match dtype {
                None => mul_mat(x, same),
                Some(dtype) => {
                    let mut rounded = self.take(x.nrows(), x.ncols());
                    round_into(x, dtype, &mut rounded);
                    mul_mat(rounded.view(), same);
                    self.give(rounded);
                }
            }
        }
    }

    /// Attention of every window to itself and to what its session remembers of layer `index`.
    /// `query (n, ..)`, `key` and `value` of the same rows -> (n, n_head * value_width).
    pub fn attend(
        &mut self,
        index: usize,
        attention: &Attention<'_>,
        query: &Rows,
        mut key: Rows,
        mut value: Rows,
    ) -> Rows {
        if self.activations == Activations::Rounded {
            round(&mut key, DType::F16);
            round(&mut value, DType::F16);
        }
        let queries =
            |span: &Span| Queries { start: span.rows.start, end: span.rows.end, position: span.position };
        if let Some(session) = &mut self.session {
            let (keys, values) = session.append(index, key, value);
            let span = &self.spans[0];
            let n = span.position + span.rows.len();
            let window = Window {
                queries: queries(span),
                keys: keys.slice(s![..n, ..]),
                values: values.slice(s![..n, ..]),
            };
            let out = Rows::zeros((query.nrows(), attention.n_head * attention.value_width));
            return attention.run(query, &[window], out);
        }
        let out = self.take(query.nrows(), attention.n_head * attention.value_width);
        let windows: Vec<Window<'_>> = self
            .spans
            .iter()
            .map(|span| Window {
                queries: queries(span),
                keys: key.slice_axis(Axis(0), span.rows.clone().into()),
                values: value.slice_axis(Axis(0), span.rows.clone().into()),
            })
            .collect();
        let out = attention.run(query, &windows, out);
        drop(windows);
        self.give(key);
        self.give(value);
        out
    }

    /// Attention of every window to rows that were made of the same window by another stack of
    /// layers, or of the prompt of a session: `query (n, ..) -> (n, n_head * value_width)`.
    pub fn attend_across(
        &mut self,
        attention: &Attention<'_>,
        query: &Rows,
        key: &Rows,
        value: &Rows,
    ) -> Rows {
        let out = self.take(query.nrows(), attention.n_head * attention.value_width);
        let windows: Vec<Window<'_>> = self
            .spans
            .iter()
            .map(|span| {
                let seen = if self.session.is_some() { 0..key.nrows() } else { span.rows.clone() };
                Window {
                    queries: Queries { start: span.rows.start, end: span.rows.end, position: 0 },
                    keys: key.slice_axis(Axis(0), seen.clone().into()),
                    values: value.slice_axis(Axis(0), seen.into()),
                }
            })
            .collect();
        attention.run(query, &windows, out)
    }
}

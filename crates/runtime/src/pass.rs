//! One run of a graph over a batch of sequences.

use std::{collections::BTreeMap, ops::Range, sync::Arc};

use gguf_quant::Level;
use gguf_types::DType;
use ndarray::{ArrayView2, Axis, s};

use crate::{
    Error,
    observer::{Multiplied, Observer, Part},
    ops::{
        Attention, Buffers, KvView, Mask, Product, Queries, Rope, RopeCache, Rows, Selection, mul_backward,
        multiply, round,
    },
    session::{Activations, Embedding, KeyValue, Seen, Session, StateKind},
    weights::{LowRank, Weight},
};

/// The rows of one sequence in a batch.
#[derive(Debug, Clone)]
pub struct Span {
    /// Its rows.
    pub rows: Range<usize>,
    /// The position of its first row.
    pub position: usize,
    /// The wanted rows, counted in the batch.
    pub outputs: Range<usize>,
}

/// A picture's embedding in a batch.
#[derive(Debug, Clone)]
pub struct Placed<'a> {
    /// Its rows.
    pub rows: Range<usize>,
    pub embedding: &'a Embedding,
}

/// Data of earlier layers for later ones, in addition to the residual stream.
#[derive(Debug, Clone, Default)]
pub struct Carried {
    pub first_values: Option<Rows>,
    pub per_layer_inputs: Option<Rows>,
    pub embedded: Option<Rows>,
    pub selection: Option<Arc<Selection>>,
    pub adapter_of_row: Option<Arc<Vec<usize>>>,
    pub key_values: BTreeMap<usize, KeyValue>,
}

/// Inputs of layers that a run returns in addition to its rows.
#[derive(Debug, Default)]
pub struct LayerStates {
    /// The layers. The number of layers of the model means the output of the last one.
    pub layers: Vec<usize>,
    /// Input of each layer: (n, n_embd); `None` until it is computed.
    pub rows: Vec<Option<Rows>>,
}

/// One run over a batch, or over some steps of one.
pub struct Pass<'a, 'o> {
    /// Tokens of all sequences, concatenated.
    pub tokens: Vec<u32>,
    /// The sequences.
    pub spans: Vec<Span>,
    positions: Vec<u32>,
    /// Time, height and width of every row, if rows are image patches or follow one.
    pub grid: Option<Vec<[u32; 3]>>,
    /// Replacements for tokens, in order.
    pub pictures: Vec<Placed<'a>>,
    /// Most layers rotate alike: cosines and sines are made once for all.
    rope_caches: Vec<(Rope, Arc<RopeCache>)>,
    activations: Activations,
    observer: Option<&'o mut dyn Observer>,
    /// State of earlier runs of the only sequence.
    session: Option<&'a mut Session>,
    /// RWKV 7: values of the first layer, which later layers mix into theirs: (n, n_embd).
    pub first_values: Option<Rows>,
    /// Gemma 3n and 4: per-layer embeddings of the tokens: (n, n_layer * n_embd_per_layer).
    pub per_layer_inputs: Option<Rows>,
    /// Talkie: the normalized embedding, which layers add to their output: (n, n_embd).
    pub embedded: Option<Rows>,
    /// Keys that an indexer chose, in this layer or the last one that has an indexer.
    pub selection: Option<Arc<Selection>>,
    /// Granite Switch: the built-in adapter of each row.
    pub adapter_of_row: Option<Arc<Vec<usize>>>,
    /// Inputs of layers to keep.
    pub layer_states: LayerStates,
    /// Tokens whose rows were gathered for the next products; `None` for all tokens.
    pub routed: Option<Vec<usize>>,
    /// Without a session, keys and values that layers of this run see.
    key_values: BTreeMap<usize, KeyValue>,
    buffers: Buffers,
}

impl<'a, 'o> Pass<'a, 'o> {
    /// A pass over sequences.
    pub fn new(
        tokens: Vec<u32>,
        spans: Vec<Span>,
        activations: Activations,
        observer: Option<&'o mut dyn Observer>,
        session: Option<&'a mut Session>,
    ) -> Self {
        // Positions count within each sequence, from the end of its session.
        let positions =
            spans.iter().flat_map(|span| (span.position..).take(span.rows.len())).map(|p| p as u32).collect();
        Pass {
            tokens,
            spans,
            positions,
            grid: None,
            pictures: Vec::new(),
            rope_caches: Vec::new(),
            activations,
            observer,
            session,
            first_values: None,
            per_layer_inputs: None,
            embedded: None,
            selection: None,
            adapter_of_row: None,
            layer_states: LayerStates::default(),
            routed: None,
            key_values: BTreeMap::new(),
            buffers: Buffers::default(),
        }
    }

    /// A pass over rows that are not tokens, at positions from 0.
    pub fn over_rows(n_rows: usize, activations: Activations) -> Self {
        Self::over_windows(n_rows, n_rows, activations)
    }

    /// Like this, in windows of `window` rows, each a separate sequence.
    pub fn over_windows(n_rows: usize, window: usize, activations: Activations) -> Self {
        let span =
            |start: usize| Span { rows: start..n_rows.min(start + window), position: 0, outputs: 0..0 };
        let spans = (0..n_rows).step_by(window.max(1)).map(span).collect();
        Self::new(Vec::new(), spans, activations, None, None)
    }

    /// Continues after an earlier step of the same batch, with memory that passes share.
    pub fn resume(mut self, carried: Carried, buffers: &Buffers) -> Self {
        let Carried { first_values, per_layer_inputs, embedded, selection, adapter_of_row, key_values } =
            carried;
        self.adapter_of_row = adapter_of_row;
        (self.first_values, self.per_layer_inputs) = (first_values, per_layer_inputs);
        (self.embedded, self.selection, self.key_values) = (embedded, selection, key_values);
        self.buffers = buffers.clone();
        self
    }

    /// Data for later steps, in separate memory.
    pub fn carry(self) -> Carried {
        let detached_entry =
            |(index, (key, value)): (usize, KeyValue)| (index, (key.detached(), value.detached()));
        Carried {
            first_values: self.first_values.map(Rows::detached),
            per_layer_inputs: self.per_layer_inputs.map(Rows::detached),
            embedded: self.embedded.map(Rows::detached),
            selection: self.selection,
            adapter_of_row: self.adapter_of_row,
            key_values: self.key_values.into_iter().map(detached_entry).collect(),
        }
    }

    /// The position of every row in its sequence.
    pub fn positions(&self) -> &[u32] {
        &self.positions
    }

    /// Cosines and sines of all rows.
    pub fn rope_cache(&mut self, rope: &Rope) -> Arc<RopeCache> {
        if let Some((_, cache)) = self.rope_caches.iter().find(|(known, _)| known == rope) {
            return cache.clone();
        }
        let cache = Arc::new(rope.cache(&self.positions, self.grid.as_deref()));
        self.rope_caches.push((rope.clone(), cache.clone()));
        cache
    }

    /// The number of positions that the longest sequence has, with what its session contains.
    pub fn end(&self) -> usize {
        self.spans.iter().map(|span| span.position + span.rows.len()).max().unwrap_or(0)
    }

    /// The rows of each sequence.
    pub fn sequences(&self) -> Vec<Range<usize>> {
        self.spans.iter().map(|span| span.rows.clone()).collect()
    }

    /// The rows that are wanted, in order.
    pub fn output_rows(&self) -> Vec<usize> {
        self.spans.iter().flat_map(|span| span.outputs.clone()).collect()
    }

    /// Rows with whatever is in them, to be overwritten: (n_rows, width).
    pub fn scratch(&self, n_rows: usize, width: usize) -> Rows {
        self.buffers.rows(n_rows, width)
    }

    /// Zeros: (n_rows, width).
    pub fn zeros(&self, n_rows: usize, width: usize) -> Rows {
        self.buffers.zeros(n_rows, width)
    }

    /// Some rows of `from` (n, width): (indices.len(), width).
    pub fn select_rows(&self, from: &Rows, indices: &[usize]) -> Rows {
        self.buffers.select_rows(from, indices)
    }

    /// Some columns of `from` (n, width): (n, columns.len()).
    pub fn columns(&self, from: &Rows, columns: Range<usize>) -> Rows {
        self.buffers.columns(from, columns)
    }

    /// The state of each sequence that layer `index` kept: `len` floats, zeros if there are no tokens before.
    pub fn take_states(&mut self, index: usize, kind: StateKind, len: usize) -> Vec<Vec<f32>> {
        match &mut self.session {
            Some(session) => vec![session.take_state(index, kind, len)],
            None => vec![vec![0.0; len]; self.spans.len()],
        }
    }

    /// Keeps what [`Pass::take_states`] gave and the tokens of this run changed. Without a session nothing follows, and
    /// nothing is kept.
    pub fn put_states(&mut self, index: usize, kind: StateKind, states: Vec<Vec<f32>>) {
        if let (Some(session), Some(state)) = (&mut self.session, states.into_iter().next()) {
            session.put_state(index, kind, state);
        }
    }

    /// Keys and values that an encoder made for this session, for each layer of the decoder.
    pub fn cross_kv(&self) -> Option<Arc<Vec<KeyValue>>> {
        self.session.as_ref().and_then(|session| session.cross_kv.clone())
    }

    /// Rows of the embedding `(n_vocab, n_embd)`: (n, n_embd).
    pub fn embed(&self, embedding: &Weight) -> Result<Rows, Error> {
        self.embed_tokens(embedding, &self.tokens)
    }

    /// Like this, for other tokens.
    ///
    /// # Errors
    /// [`Error::TokenRange`].
    pub fn embed_tokens(&self, embedding: &Weight, tokens: &[u32]) -> Result<Rows, Error> {
        if let Some(id) = tokens.iter().find(|id| **id as usize >= embedding.n_out) {
            return Err(Error::TokenRange { id: *id, n_vocab: embedding.n_out });
        }
        Ok(self.rows_of(embedding, tokens))
    }

    /// Replaces placeholder rows in `x` (n, n_embd) with image embeddings.
    pub fn place_pictures(&self, x: &mut Rows) {
        for Placed { rows, embedding } in &self.pictures {
            x.slice_mut(s![rows.clone(), ..]).assign(&*embedding.rows);
        }
    }

    /// Adds the image features for layer `index` to the stream `x` (n, n_embd) after that layer.
    pub fn add_deep_features(&self, index: usize, x: &mut Rows) {
        for Placed { rows, embedding } in &self.pictures {
            if let Some(deep) = embedding.deep.get(index) {
                let mut x = x.slice_mut(s![rows.clone(), ..]);
                x += &**deep;
            }
        }
    }

    /// Keeps the input `x` (n, n_embd) of layer `index` if [`Pass::layer_states`] lists the layer.
    pub fn keep_layer_input(&mut self, index: usize, x: &Rows) {
        let LayerStates { layers, rows } = &mut self.layer_states;
        for (_, kept) in layers.iter().zip(rows).filter(|(layer, _)| **layer == index) {
            *kept = Some(x.clone().detached());
        }
    }

    /// The positions of a sequence that see each other under a mask whatever their order.
    fn blocks(&self, span: &Span, mask: Mask) -> Vec<Range<usize>> {
        let in_window = matches!(mask, Mask::SlidingWindow(_));
        let sees = |placed: &&Placed<'_>| match placed.embedding.seen {
            Seen::Before => false,
            Seen::All => true,
            Seen::InWindows => in_window,
        };
        let own = self.pictures.iter().filter(|placed| span.rows.contains(&placed.rows.start)).filter(sees);
        let position = |row: usize| span.position + row - span.rows.start;
        own.map(|placed| position(placed.rows.start)..position(placed.rows.end)).collect()
    }

    /// Rows of learned positions `(n_positions, n_embd)`: (n, n_embd).
    pub fn embed_positions(&self, embedding: &Weight) -> Result<Rows, Error> {
        if self.end() > embedding.n_out {
            return Err(Error::TooLong { found: self.end(), limit: embedding.n_out });
        }
        Ok(self.rows_of(embedding, &self.positions))
    }

    /// Rows of a matrix, decoded: (indices.len(), n_in). Each index is one of its rows.
    pub fn rows_of(&self, matrix: &Weight, indices: &[u32]) -> Rows {
        let mut rows = self.scratch(indices.len(), matrix.n_in);
        let level = Level::detect();
        for (index, row) in indices.iter().zip(rows.as_mut_slice().chunks_exact_mut(matrix.n_in.max(1))) {
            let at = *index as usize;
            // The matrix stays as it is stored; a row is decoded for each token that needs it.
            matrix.decode(level, at..at + 1, row).expect("a weight of a checked type decodes");
        }
        for LowRank { a, b, scale, .. } in matrix.low_rank_rows() {
            let (narrow, mut added) = (self.rows_of(a, indices), self.scratch(indices.len(), b.n_out));
            let product = Product { weight: b, index: 0, out: added.view_mut() };
            multiply(self.is_rounded(), narrow.view(), vec![product]);
            rows.scaled_add(*scale, &*added);
        }
        rows
    }

    fn is_rounded(&self) -> bool {
        self.activations == Activations::Rounded
    }

    /// Products of weights with the same input, shown to the observer.
    pub fn mul_mat(&mut self, x: ArrayView2<'_, f32>, products: Vec<Product<'_>>) {
        if let Some(observer) = &mut self.observer {
            let by = products
                .iter()
                .map(|product| (product.weight.name.as_str(), part_of(product.weight, product.index)));
            let by: Vec<(&str, Part)> = by.collect();
            let rows = x.as_slice().expect("the input of products is whole rows");
            let call = Multiplied { by: &by, rows, n_in: x.ncols(), tokens: self.routed.as_deref() };
            observer.multiplied(&call);
        }
        multiply(self.is_rounded(), x, products);
    }

    /// Does work that the observer is not shown.
    pub fn unseen<R>(&mut self, work: impl FnOnce(&mut Self) -> R) -> R {
        let observer = self.observer.take();
        let result = work(self);
        self.observer = observer;
        result
    }

    /// Backward pass through products with the same input: takes the gradients (n, n_out) at the output of
    /// each weight, which the observer receives, and returns the sum at the input: (n, n_in).
    pub fn mul_backward(&mut self, products: &[(&Weight, &Rows)]) -> Rows {
        self.mul_backward_of(0, products)
    }

    /// Like this, with matrix `index` of each stack.
    pub fn mul_backward_of(&mut self, index: usize, products: &[(&Weight, &Rows)]) -> Rows {
        let (n_rows, n_in) =
            products.first().map_or((0, 0), |(weight, gradients)| (gradients.nrows(), weight.n_in));
        let mut out = self.scratch(n_rows, n_in);
        for (at, (weight, gradients)) in products.iter().enumerate() {
            if let Some(observer) = &mut self.observer {
                // The input of the transposed weight is as wide as the weight has rows.
                let by = [(weight.name.as_str(), part_of(weight, index))];
                let (rows, n_in, tokens) = (gradients.as_slice(), weight.n_out, self.routed.as_deref());
                observer.multiplied(&Multiplied { by: &by, rows, n_in, tokens });
            }
            mul_backward(gradients.view(), weight, index, at > 0, out.view_mut());
        }
        out
    }

    /// Backward pass through the self-attention of every sequence: gradients of queries, keys and values from
    /// those of the output, (n, n_head * value_width). Without a session.
    pub fn attend_back(
        &self,
        attention: &Attention<'_>,
        [query, key, value]: [&Rows; 3],
        gradients: &Rows,
    ) -> [Rows; 3] {
        let mut out = [query, key, value].map(|rows| self.zeros(rows.nrows(), rows.ncols()));
        let views = self.spans.iter().map(|span| KvView {
            queries: Queries { start: span.rows.start, end: span.rows.end, position: span.position },
            keys: key.slice_axis(Axis(0), span.rows.clone().into()),
            values: value.slice_axis(Axis(0), span.rows.clone().into()),
            blocks: &[],
        });
        let views: Vec<KvView<'_>> = views.collect();
        attention.backward(query, &views, gradients, &mut out);
        out
    }

    /// Attention of every sequence to itself and to what its session keeps of layer `index`.
    /// `query (n, ..)`, `key` and `value` of the same rows -> (n, n_head * value_width).
    pub fn attend(
        &mut self,
        index: usize,
        attention: &Attention<'_>,
        query: &Rows,
        key: Rows,
        value: Rows,
    ) -> Rows {
        self.put_key_value(index, key, value);
        let out = self.attend_to(index, attention, query);
        self.key_values.remove(&index);
        out
    }

    /// Puts keys and values of layer `index` where [`Pass::attend_to`] finds them, in this layer and in later ones.
    pub fn put_key_value(&mut self, index: usize, mut key: Rows, mut value: Rows) {
        // The reference's cache contains keys and values in f16.
        if self.is_rounded() {
            round(&mut key, DType::F16);
            round(&mut value, DType::F16);
        }
        match &mut self.session {
            Some(session) => session.append(index, &key, &value),
            None => {
                self.key_values.insert(index, (key, value));
            }
        }
    }

    /// Attention of every sequence to the keys and values that were put for layer `index`:
    /// `query (n, ..) -> (n, n_head * value_width)`.
    pub fn attend_to(&self, index: usize, attention: &Attention<'_>, query: &Rows) -> Rows {
        let out = self.scratch(query.nrows(), attention.n_head * attention.value_width);
        let blocks: Vec<_> = self.spans.iter().map(|span| self.blocks(span, attention.mask)).collect();
        attention.run(query, &self.views(index, &blocks), out)
    }

    /// Queries of every sequence, and the keys and values that were put for layer `index`.
    fn views<'s>(&'s self, index: usize, blocks: &'s [Vec<Range<usize>>]) -> Vec<KvView<'s>> {
        let queries =
            |span: &Span| Queries { start: span.rows.start, end: span.rows.end, position: span.position };
        if let Some(session) = &self.session {
            let span = &self.spans[0];
            let (keys, values) = session.key_value(index, span.position + span.rows.len());
            return vec![KvView { queries: queries(span), keys, values, blocks: &blocks[0] }];
        }
        let (key, value) = &self.key_values[&index];
        let views = self.spans.iter().zip(blocks).map(|(span, blocks)| KvView {
            queries: queries(span),
            keys: key.slice_axis(Axis(0), span.rows.clone().into()),
            values: value.slice_axis(Axis(0), span.rows.clone().into()),
            blocks,
        });
        views.collect()
    }

    /// Chooses keys of every sequence, of which `key (n, width)` are those of this run. They are kept in `slot`, which
    /// no layer uses for keys and values.
    pub fn select(&mut self, slot: usize, key: Rows, choose: impl FnOnce(&[KvView<'_>]) -> Selection) {
        let selection = self.with_kept(slot, key, choose);
        self.selection = Some(Arc::new(selection));
    }

    /// Keeps rows (n, width) of this run in `slot`, and works with all rows of every sequence there, as keys.
    pub fn with_kept<R>(&mut self, slot: usize, rows: Rows, work: impl FnOnce(&[KvView<'_>]) -> R) -> R {
        let none = self.zeros(rows.nrows(), 0);
        self.put_key_value(slot, rows, none);
        let blocks = vec![Vec::new(); self.spans.len()];
        let result = work(&self.views(slot, &blocks));
        self.key_values.remove(&slot);
        result
    }

    /// Cross-attention: of every sequence to keys and values that an encoder made of the same sequence, or that the
    /// session contains: `query (n, ..) -> (n, n_head * value_width)`.
    pub fn cross_attend(&self, attention: &Attention<'_>, query: &Rows, (key, value): &KeyValue) -> Rows {
        let out = self.scratch(query.nrows(), attention.n_head * attention.value_width);
        let view = |span: &Span| {
            // With a session the keys are those of one prompt; in a batch those of each sequence's own rows.
            let seen = if self.session.is_some() { 0..key.nrows() } else { span.rows.clone() };
            KvView {
                queries: Queries { start: span.rows.start, end: span.rows.end, position: 0 },
                keys: key.slice_axis(Axis(0), seen.clone().into()),
                values: value.slice_axis(Axis(0), seen.into()),
                blocks: &[],
            }
        };
        let views: Vec<KvView<'_>> = self.spans.iter().map(view).collect();
        attention.run(query, &views, out)
    }
}

/// The observer's identifier of matrix `index` of a stack, or of the only one.
fn part_of(weight: &Weight, index: usize) -> Part {
    if weight.is_by_head {
        Part::Head { index, n: weight.n_stack }
    } else if weight.n_stack > 1 {
        Part::Expert { index, n: weight.n_stack }
    } else {
        Part::Whole
    }
}

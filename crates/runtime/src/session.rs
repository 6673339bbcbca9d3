//! Inputs of a model, and the state it keeps between calls.

use std::{collections::BTreeMap, ops::Range, sync::Arc};

use ndarray::{ArrayView2, s};
use serde::{Deserialize, Serialize};

use crate::ops::Rows;

/// Inputs of products with weights.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Activations {
    /// Exact outputs of the previous layers, in f32: results depend only on the weights.
    #[default]
    F32,
    /// Rounded as by llama.cpp's CPU kernels: to 8 bits in blocks before quantized weights, to f16 or bf16
    /// before weights with those types, keys and values to f16. Results are then close to llama.cpp's.
    Rounded,
}

impl Activations {
    /// Every kind.
    pub const ALL: &[Activations] = &[Activations::F32, Activations::Rounded];

    /// The name in options and reports.
    pub fn name(self) -> &'static str {
        match self {
            Activations::F32 => "f32",
            Activations::Rounded => "rounded",
        }
    }
}

/// Tokens of one text, at positions from 0 on: no token before the first is seen, and none of another sequence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sequence<'a> {
    /// The tokens, in order.
    pub tokens: &'a [u32],
    /// The positions whose predictions are wanted.
    pub outputs: Range<usize>,
}

impl<'a> Sequence<'a> {
    /// A sequence whose positions are all wanted.
    pub fn new(tokens: &'a [u32]) -> Sequence<'a> {
        Sequence { tokens, outputs: 0..tokens.len() }
    }
}

/// The log-mel spectrogram of a sound, as an audio model was trained on it: decoding and transforming
/// sound is left to the caller.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Features<'a> {
    /// (n_mels, n_frames), row-major: all frames of a band next to each other, as transformers has
    /// `input_features`.
    pub values: &'a [f32],
    /// Bands.
    pub n_mels: usize,
    /// Frames in time.
    pub n_frames: usize,
}

/// Embeddings of an image or a sound, which replace tokens of a prompt.
#[derive(Debug, Clone)]
pub struct Embedding {
    /// (n, n_embd).
    pub rows: Rows,
    /// Features that are added after the first layers of the text model: (n, n_embd) for each.
    pub deep: Vec<Rows>,
    /// Rows and columns of a picture whose embeddings have two positions each (M-RoPE).
    pub grid: Option<(usize, usize)>,
    /// Layers of the text model in which they see each other regardless of their order.
    pub seen: Seen,
}

impl Embedding {
    /// Number of rows.
    pub fn n_rows(&self) -> usize {
        self.rows.nrows()
    }

    /// The rows: (n, n_embd) f32, row-major.
    pub fn rows(&self) -> &[f32] {
        self.rows.as_slice()
    }

    /// Features that are added after each of the first layers of the text model: (n, n_embd) f32, row-major.
    pub fn deep(&self) -> impl Iterator<Item = &[f32]> {
        self.deep.iter().map(Rows::as_slice)
    }
}

/// Layers of a text model in which the embeddings of a picture see each other regardless of their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// None: each embedding sees those before it.
    Before,
    /// All, within the window if there is one.
    All,
    /// Layers with a window (Gemma 4).
    InWindows,
}

/// A part of a prompt.
#[derive(Debug, Clone, Copy)]
pub enum Piece<'a> {
    /// Tokens, in order.
    Tokens(&'a [u32]),
    /// A picture or a sound: its rows replace tokens.
    Picture(&'a Embedding),
}

impl Piece<'_> {
    /// Number of positions.
    pub fn n_rows(&self) -> usize {
        match self {
            Piece::Tokens(tokens) => tokens.len(),
            Piece::Picture(embedding) => embedding.n_rows(),
        }
    }
}

/// Keys and values of one layer: (n, n_head_kv * key_width) and (n, n_head_kv * value_width).
pub type KeyValue = (Rows, Rows);

/// Kind of a layer's state; a layer may keep several of fixed size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum StateKind {
    /// State of a recurrence, like in its equation.
    Recurrence,
    /// The last rows that a convolution looks back on.
    Convolution,
    /// The last row before the time mix of RWKV.
    TokenShift,
    /// The last row before the channel mix of RWKV.
    ChannelTokenShift,
    /// The last tokens, for embeddings of several tokens.
    Tokens,
    /// The last rows of the convolution of such embeddings.
    NGramConvolution,
}

/// State of a growing sequence: the KV cache of every attention layer, and states of every layer with a
/// recurrence or a convolution.
#[derive(Debug, Clone, Default)]
pub struct Session {
    pub(crate) n_past: usize,
    /// By how much the position of the next row is below `n_past`: rows of a picture share positions (M-RoPE).
    pub(crate) n_shared: usize,
    /// Keys and values of each layer; matrices have room for more than `n_past` rows.
    layers: Vec<KeyValue>,
    /// Keys and values of what an encoder read, for each layer of the decoder.
    pub(crate) cross_kv: Option<Arc<Vec<KeyValue>>>,
    /// States of fixed size, by layer.
    states: BTreeMap<(usize, StateKind), Vec<f32>>,
}

impl Session {
    /// A session without tokens.
    pub fn new() -> Session {
        Session::default()
    }

    /// A session without tokens whose decoder sees keys and values of an encoder.
    pub(crate) fn with_cross_kv(cross_kv: Vec<KeyValue>) -> Session {
        // Detached, because they outlive the pass and its memory.
        let cross_kv = cross_kv.into_iter().map(|(key, value)| (key.detached(), value.detached())).collect();
        Session { cross_kv: Some(Arc::new(cross_kv)), ..Session::default() }
    }

    /// Tokens that were run.
    pub fn n_past(&self) -> usize {
        self.n_past
    }

    /// Forgets all but the first `n` tokens, or all if layers keep a state that cannot be rewound (recurrences,
    /// convolutions, encoders, pictures). Returns the number of tokens that remain.
    pub fn rewind(&mut self, n: usize) -> usize {
        if n >= self.n_past {
            return self.n_past;
        }
        if self.n_shared > 0 || self.cross_kv.is_some() || !self.states.is_empty() {
            *self = Session::new();
        }
        // Rows of later tokens are overwritten.
        self.n_past = self.n_past.min(n);
        self.n_past
    }

    /// True if layers keep a state that cannot be rewound.
    pub(crate) fn has_states(&self) -> bool {
        !self.states.is_empty() || self.cross_kv.is_some() || self.n_shared > 0
    }

    /// Takes a state of layer `index` out; `len` zeros at first.
    pub(crate) fn take_state(&mut self, index: usize, kind: StateKind, len: usize) -> Vec<f32> {
        // Taken out, not copied: a state of RWKV 7 has a megabyte for each layer, and the pass puts it back.
        let state = self.states.remove(&(index, kind)).filter(|state| state.len() == len);
        state.unwrap_or_else(|| vec![0.0; len])
    }

    /// Puts a state of layer `index` back.
    pub(crate) fn put_state(&mut self, index: usize, kind: StateKind, state: Vec<f32>) {
        self.states.insert((index, kind), state);
    }

    /// Appends rows of layer `index`.
    pub(crate) fn append(&mut self, index: usize, key: &Rows, value: &Rows) {
        if self.layers.len() <= index {
            self.layers.resize_with(index + 1, Default::default);
        }
        let end = self.n_past + key.nrows();
        let (keys, values) = &mut self.layers[index];
        for (all, new) in [(&mut *keys, key), (&mut *values, value)] {
            // Room doubles, so that a long generation copies each row a few times only.
            if all.nrows() < end {
                // 64 rows at least, so that the first tokens of a generation do not copy each time.
                let mut grown = Rows::zeros(end.next_power_of_two().max(64), new.ncols());
                if self.n_past > 0 {
                    grown.slice_mut(s![..self.n_past, ..]).assign(&all.slice(s![..self.n_past, ..]));
                }
                *all = grown;
            }
            all.slice_mut(s![self.n_past..end, ..]).assign(&**new);
        }
    }

    /// The first `n` keys and values of layer `index`, which were appended before.
    pub(crate) fn key_value(&self, index: usize, n: usize) -> (ArrayView2<'_, f32>, ArrayView2<'_, f32>) {
        let (keys, values) = &self.layers[index];
        // Rows after them are reserved for later tokens.
        (keys.slice(s![..n, ..]), values.slice(s![..n, ..]))
    }
}

//! A model: a file, ready to turn tokens into predictions.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    path::Path,
    sync::Arc,
};

use ndarray::{ArrayView2, ArrayViewMut2, s};
use rayon::{ThreadPool, ThreadPoolBuilder};
use serde::{Deserialize, Serialize};

use crate::{
    Error,
    embed::{Classifier, Pooling},
    graph::{Pass, Prepared, Span},
    keys::Keys,
    models,
    ops::Rows,
    tokenize::Tokenizer,
    weights::Weights,
};

/// How a model is run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// Threads to work with; none for as many as the machine has.
    pub threads: Option<usize>,
    /// What goes into products.
    pub activations: Activations,
}

/// What goes into products with weights.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Activations {
    /// What the layers before made, in f32: figures then tell of the weights alone.
    #[default]
    F32,
    /// The same, rounded as llama.cpp's CPU kernels round it: to 8 bits in blocks before quantized weights, to
    /// f16 or bf16 before weights of those, keys and values to f16. Figures are then llama.cpp's, nearly.
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

/// Tokens that stand for themselves: nothing before the first is seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window<'a> {
    /// The tokens, in order.
    pub tokens: &'a [u32],
    /// The positions whose predictions are wanted.
    pub wanted: Range<usize>,
}

impl<'a> Window<'a> {
    /// A window whose positions are all wanted.
    pub fn new(tokens: &'a [u32]) -> Window<'a> {
        Window { tokens, wanted: 0..tokens.len() }
    }
}

/// The log-mel spectrogram of a sound, as a model that hears was trained on it: decoding and transforming
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

/// Which part of a tensor was multiplied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// All of it.
    Whole,
    /// One of so many matrices, with those rows that were routed to it.
    Expert {
        /// Which, from 0.
        index: usize,
        /// Of how many.
        n: usize,
    },
    /// One of so many matrices, each of which sees every row its own way.
    Head {
        /// Which, from 0.
        index: usize,
        /// Of how many.
        n: usize,
    },
}

/// Sees what weights are multiplied with: importance matrices are made of it.
pub trait Observer: Send {
    /// A part of `tensor` was multiplied with `input` (n_rows, n_in), row-major. The rows of an expert may be
    /// none.
    fn mul_mat(&mut self, tensor: &str, part: Part, input: &[f32], n_in: usize);
}

/// What a graph makes of windows: a row for every wanted position, one step before the logits.
#[derive(Debug, Clone)]
pub struct Hidden {
    /// (n_rows, n_embd).
    rows: Rows,
    /// Behind the last row of each window.
    ends: Vec<usize>,
}

impl Hidden {
    /// Rows in all.
    pub fn n_rows(&self) -> usize {
        self.rows.nrows()
    }

    /// The rows that belong to the wanted positions of a window, in order.
    pub fn rows_of(&self, window: usize) -> Range<usize> {
        let start = if window == 0 { 0 } else { self.ends[window - 1] };
        start..self.ends[window]
    }

    /// One row: (n_embd).
    pub fn row(&self, row: usize) -> &[f32] {
        let width = self.rows.ncols();
        let all = self.rows.as_slice().expect("activations are contiguous");
        &all[row * width..(row + 1) * width]
    }
}

/// What was said before: keys and values of every layer that attends, the state of every layer that
/// recurs, for one window that grows.
#[derive(Debug, Clone, Default)]
pub struct Session {
    n_past: usize,
    /// Keys and values of each layer, with room to grow.
    layers: Vec<(Rows, Rows)>,
    /// Keys and values of a prompt, for each layer of what answers it.
    pub(crate) across: Option<Arc<Vec<(Rows, Rows)>>>,
    /// States of fixed size, by layer and by part of the layer.
    states: BTreeMap<(usize, usize), Vec<f32>>,
}

impl Session {
    /// Nothing said yet.
    pub fn new() -> Session {
        Session::default()
    }

    /// Tokens that were said.
    pub fn n_past(&self) -> usize {
        self.n_past
    }

    /// The state that a part of a layer left behind; `len` zeros at first.
    pub(crate) fn recall(&mut self, index: usize, part: usize, len: usize) -> Vec<f32> {
        let state = self.states.remove(&(index, part)).filter(|state| state.len() == len);
        state.unwrap_or_else(|| vec![0.0; len])
    }

    /// Keeps the state of a part of a layer.
    pub(crate) fn remember(&mut self, index: usize, part: usize, state: Vec<f32>) {
        self.states.insert((index, part), state);
    }

    /// Appends rows of a layer and returns all of them, with rows without meaning behind.
    pub(crate) fn append(
        &mut self,
        index: usize,
        key: Rows,
        value: Rows,
    ) -> (ArrayView2<'_, f32>, ArrayView2<'_, f32>) {
        if self.layers.len() <= index {
            self.layers.resize_with(index + 1, Default::default);
        }
        let end = self.n_past + key.nrows();
        let (keys, values) = &mut self.layers[index];
        for (all, new) in [(&mut *keys, key), (&mut *values, value)] {
            if all.nrows() < end {
                let mut grown = Rows::zeros((end.next_power_of_two().max(64), new.ncols()));
                if self.n_past > 0 {
                    grown.slice_mut(s![..self.n_past, ..]).assign(&all.slice(s![..self.n_past, ..]));
                }
                *all = grown;
            }
            all.slice_mut(s![self.n_past..end, ..]).assign(&new);
        }
        (keys.view(), values.view())
    }
}

/// A file, ready to run. Weights stay as they are stored, in memory maps.
pub struct Model {
    file: gguf::Model,
    architecture: String,
    context_length: usize,
    tokenizer: Tokenizer,
    prepared: Prepared,
    pooling: Option<Pooling>,
    classifier: Option<Classifier>,
    is_causal: bool,
    /// Tensors that are no matrices of products, whatever their shape.
    decoded: BTreeSet<String>,
    activations: Activations,
    pool: ThreadPool,
}

impl Model {
    /// Opens the file at `path`, or the split model that it belongs to.
    ///
    /// # Errors
    /// [`Error`] for a container, keys, tensors or a tokenizer that are wrong or not known.
    pub fn open(path: &Path, options: &Options) -> Result<Model, Error> {
        Self::new(gguf::Model::open(path)?, options)
    }

    /// Takes a file that is open.
    ///
    /// # Errors
    /// As [`Model::open`].
    pub fn new(file: gguf::Model, options: &Options) -> Result<Model, Error> {
        let keys = Keys::new(file.metadata())?;
        let mut weights = Weights::new(&file)?;
        let prepared = models::open(&keys, &mut weights)?;
        let classifier = Classifier::open(&keys, &mut weights, prepared.n_embd)?;
        let decoded = weights.finish(&keys.architecture)?;
        let tokenizer = Tokenizer::from_metadata(file.metadata())?;
        let threads = options.threads.unwrap_or(0);
        let pool = ThreadPoolBuilder::new().num_threads(threads).build();
        let pool = pool.map_err(|error| Error::Threads { threads, problem: error.to_string() })?;
        let context_length = keys.count("context_length")?.unwrap_or(0);
        let pooling = Pooling::of_file(&keys)?.or(classifier.as_ref().map(|_| Pooling::Rank));
        let is_causal = keys.flag("attention.causal", true)?;
        let architecture = keys.architecture;
        Ok(Model {
            file,
            architecture,
            context_length,
            tokenizer,
            prepared,
            pooling,
            classifier,
            is_causal,
            decoded,
            activations: options.activations,
            pool,
        })
    }

    /// The file.
    pub fn file(&self) -> &gguf::Model {
        &self.file
    }

    /// The value of `general.architecture`.
    pub fn architecture(&self) -> &str {
        &self.architecture
    }

    /// The tokenizer that the keys describe, as llama.cpp reads them.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// Whether rows are multiplied with a tensor as a matrix; not so with norms, biases, convolutions, shares
    /// of a mix.
    pub(crate) fn is_multiplied(&self, tensor: &str) -> bool {
        !self.decoded.contains(tensor)
    }

    /// What goes into products with weights.
    pub fn activations(&self) -> Activations {
        self.activations
    }

    /// Tokens that are predicted: the length of a row of logits.
    pub fn n_vocab(&self) -> usize {
        self.prepared.n_vocab
    }

    /// The length of a row of [`Hidden`].
    pub fn n_embd(&self) -> usize {
        self.prepared.n_embd
    }

    /// Tokens that the model was trained to see at once; 0 where no key says so.
    pub fn context_length(&self) -> usize {
        self.context_length
    }

    /// How rows of a text become one vector, as the file says: by its key, or by its classifier.
    pub fn pooling(&self) -> Option<Pooling> {
        self.pooling
    }

    /// Whether a token sees those before it alone.
    pub fn is_causal(&self) -> bool {
        self.is_causal
    }

    /// Whether the model reads a prompt with an encoder and answers it with a decoder.
    pub fn answers(&self) -> bool {
        self.prepared.graph.answers()
    }

    /// Bands and frames of the features that the model must be given before tokens ([`Model::listen`]);
    /// none for one that reads text alone.
    pub fn hears(&self) -> Option<(usize, usize)> {
        self.prepared.graph.hears()
    }

    /// Fails unless the model predicts the next token of a text.
    ///
    /// # Errors
    /// [`Error::NoLogits`], [`Error::NoNextToken`], [`Error::NoFeatures`].
    pub fn need_next_token(&self) -> Result<(), Error> {
        let architecture = || self.architecture.clone();
        if self.prepared.head.is_none() {
            return Err(Error::NoLogits { architecture: architecture() });
        }
        if self.answers() || !self.is_causal {
            return Err(Error::NoNextToken { architecture: architecture() });
        }
        if self.hears().is_some() {
            return Err(Error::NoFeatures { architecture: architecture() });
        }
        Ok(())
    }

    pub(crate) fn classifier(&self) -> Option<&Classifier> {
        self.classifier.as_ref()
    }

    /// Does work on the model's threads.
    pub fn install<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        self.pool.install(work)
    }

    /// How many windows of so many tokens to run together: enough rows that decoding weights costs
    /// little beside multiplying with them, few enough that activations stay below 200 MB.
    pub fn windows_at_once(&self, context: usize) -> usize {
        const ROWS: usize = 2048;
        const BYTES: usize = 200 << 20;
        let row_bytes = self.prepared.row_floats.max(1) * size_of::<f32>();
        (ROWS.min(BYTES / row_bytes) / context.max(1)).max(1)
    }

    /// How many rows of logits to ask for at once, so that they take at most 64 MB.
    pub fn logit_rows_at_once(&self) -> usize {
        const BYTES: usize = 64 << 20;
        (BYTES / (self.n_vocab().max(1) * size_of::<f32>())).max(1)
    }

    /// Runs windows together, so that each weight is decoded once for all of them.
    ///
    /// # Errors
    /// [`Error::TokenRange`], [`Error::WantedRange`], [`Error::TooLong`]; [`Error::NoFeatures`] for a model that
    /// hears, which runs in sessions alone.
    pub fn run(&self, windows: &[Window<'_>], observer: Option<&mut dyn Observer>) -> Result<Hidden, Error> {
        self.pass(windows, 0, observer, None)
    }

    /// Reads a prompt: the prediction behind it is wanted, or in a model with encoder and decoder
    /// the first of the answer.
    ///
    /// # Errors
    /// As [`Model::run`].
    pub fn begin(&self, session: &mut Session, prompt: &[u32]) -> Result<Hidden, Error> {
        let spans = vec![Span { rows: 0..prompt.len(), position: 0, wanted: 0..0 }];
        let mut pass = Pass::new(prompt.to_vec(), spans, None, None);
        pass.activations = self.activations;
        match self.pool.install(|| self.prepared.graph.encode(&mut pass))? {
            Some(encoded) => {
                *session = Session { across: Some(Arc::new(encoded.across)), ..Session::new() };
                self.continue_with(session, &[encoded.start])
            }
            None => self.continue_with(session, prompt),
        }
    }

    /// Hears a sound: the session forgets what was before, and the tokens that it is then told
    /// ([`Model::continue_with`]), from the first on, are of this sound.
    ///
    /// # Errors
    /// [`Error::NoHearing`] for a model that reads text alone, [`Error::FeatureShape`] unless the features are
    /// those that [`Model::hears`] says.
    pub fn listen(&self, session: &mut Session, features: Features<'_>) -> Result<(), Error> {
        let no_hearing = || Error::NoHearing { architecture: self.architecture.clone() };
        let expected = self.hears().ok_or_else(no_hearing)?;
        let (found, n_values) = ((features.n_mels, features.n_frames), features.values.len());
        if found != expected || found.0.checked_mul(found.1) != Some(n_values) {
            return Err(Error::FeatureShape { expected, found, n_values });
        }
        let spans = vec![Span { rows: 0..features.n_frames / 2, position: 0, wanted: 0..0 }];
        let mut pass = Pass::new(Vec::new(), spans, None, None);
        pass.activations = self.activations;
        let across = self.pool.install(|| self.prepared.graph.hear(features, &mut pass))?;
        *session = Session { across: Some(Arc::new(across)), ..Session::new() };
        Ok(())
    }

    /// Runs tokens that follow those of earlier calls with the same session; the prediction behind
    /// the last is wanted.
    ///
    /// # Errors
    /// As [`Model::run`].
    pub fn continue_with(&self, session: &mut Session, tokens: &[u32]) -> Result<Hidden, Error> {
        let window = Window { tokens, wanted: tokens.len().saturating_sub(1)..tokens.len() };
        let hidden = self.pass(&[window], session.n_past, None, Some(session))?;
        session.n_past += tokens.len();
        Ok(hidden)
    }

    fn pass(
        &self,
        windows: &[Window<'_>],
        position: usize,
        observer: Option<&mut dyn Observer>,
        session: Option<&mut Session>,
    ) -> Result<Hidden, Error> {
        let (mut tokens, mut spans, mut ends) = (Vec::new(), Vec::new(), Vec::new());
        let mut n_wanted = 0;
        for window in windows {
            let Range { start, end } = window.wanted;
            if start > end || end > window.tokens.len() {
                return Err(Error::WantedRange { start, end, len: window.tokens.len() });
            }
            let first = tokens.len();
            tokens.extend_from_slice(window.tokens);
            spans.push(Span { rows: first..tokens.len(), position, wanted: first + start..first + end });
            n_wanted += end - start;
            ends.push(n_wanted);
        }
        let mut pass = Pass::new(tokens, spans, observer, session);
        pass.activations = self.activations;
        let rows = self.pool.install(|| self.prepared.graph.run(&mut pass))?;
        Ok(Hidden { rows, ends })
    }

    /// Logits of some rows of `hidden`: `out` (rows, n_vocab), row-major.
    ///
    /// # Errors
    /// [`Error::NoLogits`] for an encoder.
    ///
    /// # Panics
    /// When `rows` are not rows of `hidden` or `out` has another length.
    pub fn logits(
        &self,
        hidden: &Hidden,
        rows: Range<usize>,
        observer: Option<&mut dyn Observer>,
        out: &mut [f32],
    ) -> Result<(), Error> {
        let no_logits = || Error::NoLogits { architecture: self.architecture.clone() };
        let head = self.prepared.head.as_ref().ok_or_else(no_logits)?;
        let x = hidden.rows.slice(s![rows, ..]);
        if let Some(observer) = observer {
            let rows = x.as_slice().expect("activations are contiguous");
            observer.mul_mat(&head.weight.name, Part::Whole, rows, head.weight.n_in);
        }
        let shape = (x.nrows(), self.prepared.n_vocab);
        let out = ArrayViewMut2::from_shape(shape, out).expect("the caller's buffer holds these rows");
        self.pool.install(|| head.run(x, self.activations, out));
        Ok(())
    }
}

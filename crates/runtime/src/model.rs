//! A model: a file, ready to turn tokens into predictions.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    path::{Path, PathBuf},
    sync::PoisonError,
};

use gguf_container::Adapter;
use gguf_tokenizer::{Encoder, Reading, Tokenizer};
use gguf_types::DType;
use ndarray::{ArrayViewMut2, s};
use rayon::ThreadPool;

use crate::{
    Error,
    architecture::Graphs,
    classifier::Classifier,
    dense::Dense,
    graph::Prepared,
    hidden::Hidden,
    keys::Keys,
    observer::{Observer, Part},
    ops::Rows,
    pass::{LayerStates, Pass, Placed, Span},
    pooling::Pooling,
    session::{Activations, Features, Piece, Sequence, Session},
    weights::{InUse, Replaced, Slot, Weights},
};

/// Options for running a model.
#[derive(Debug, Clone)]
pub struct Options {
    /// Architectures and projectors that can be run.
    pub graphs: Graphs,
    /// Threads to work with; `None` for as many as the machine has.
    pub threads: Option<usize>,
    /// Inputs of products.
    pub activations: Activations,
    /// Files of LoRA adapters with their scales; 1 is as trained. They change all products and the embeddings that are looked
    /// up, but not an output matrix that is tied to the embedding.
    pub adapters: Vec<(PathBuf, f32)>,
}

impl Options {
    /// Defaults, for files of the architectures of `graphs`.
    pub fn new(graphs: Graphs) -> Options {
        Options { graphs, threads: None, activations: Activations::default(), adapters: Vec::new() }
    }
}

/// A file, ready to run. Weights stay as they are stored, in memory maps.
pub struct Model {
    file: gguf_container::Model,
    adapters: Vec<(Adapter, f32)>,
    architecture: String,
    context_length: usize,
    /// Ratio of experts to active experts, from 1 to 4.
    sparsity: usize,
    tokenizer: Encoder,
    prepared: Prepared,
    pooling: Option<Pooling>,
    classifier: Option<Classifier>,
    dense: Dense,
    is_causal: bool,
    /// Tensors that are no matrices of products, whatever their shape.
    decoded: BTreeSet<String>,
    slots: BTreeMap<String, Slot>,
    activations: Activations,
    pool: ThreadPool,
}

/// Parts made from the keys and tensors of a file.
pub(crate) struct Parts<'a> {
    pub keys: Keys<'a>,
    pub prepared: Prepared,
    classifier: Option<Classifier>,
    dense: Dense,
    taken: InUse,
}

impl<'a> Parts<'a> {
    pub fn of(
        graphs: &Graphs,
        file: &'a gguf_container::Model,
        adapters: &[(Adapter, f32)],
    ) -> Result<Parts<'a>, Error> {
        let keys = Keys::new(file.metadata())?;
        let mut weights = Weights::new(file).with_adapters(adapters);
        // The graph takes the tensors that it knows, the classifier the rest; unused tensors are an error, so
        // no part of a file is ignored silently.
        let row = graphs.find(&keys, &weights)?;
        let prepared = row.open(&keys, &mut weights)?;
        let (n_embd, is_causal) = (prepared.n_embd, prepared.is_causal);
        let classifier = Classifier::open(row.classifier(), &keys, &mut weights, n_embd, is_causal)?;
        let dense = Dense::open(&keys, &mut weights, n_embd, prepared.head.is_some())?;
        let taken = weights.check_all_known(&keys.architecture)?;
        Ok(Parts { keys, prepared, classifier, dense, taken })
    }
}

/// Checks that a file has the keys and tensors that its architecture needs, in their shapes, and only thiss.
/// Decodes everything except matrices, and runs nothing.
///
/// # Errors
/// The first problem; [`Error::UnknownArchitecture`] if the architecture is not supported.
pub fn check_parts(graphs: &Graphs, file: &gguf_container::Model) -> Result<(), Error> {
    Parts::of(graphs, file, &[]).map(drop)
}

impl Model {
    /// Opens the file at `path`, or the split model that it belongs to.
    ///
    /// # Errors
    /// [`Error`] for a container, keys, tensors or a tokenizer that are wrong or not known.
    pub fn open(path: &Path, options: &Options) -> Result<Model, Error> {
        Self::new(gguf_container::Model::open(path)?, options)
    }

    /// Takes a file that is open.
    pub fn new(file: gguf_container::Model, options: &Options) -> Result<Model, Error> {
        let adapters = options.adapters.iter().map(|(path, scale)| {
            let adapter = Adapter::open(path).and_then(|adapter| adapter.check(&file).map(|()| adapter));
            let adapter = adapter.map_err(|error| Error::Adapter { path: path.clone(), error })?;
            Ok((adapter, *scale))
        });
        let adapters: Vec<(Adapter, f32)> = adapters.collect::<Result<_, Error>>()?;
        let Parts { keys, prepared, classifier, dense, taken } =
            Parts::of(&options.graphs, &file, &adapters)?;
        let InUse { decoded, slots } = taken;
        let tokenizer = Tokenizer::from_gguf(file.metadata()).encoder(Reading::LlamaCpp)?;
        let threads = options.threads.unwrap_or(0);
        let pool = crate::thread_pool(threads)?;
        let context_length = keys.count("context_length")?.unwrap_or(0);
        // A file with a classifier and without a key for pooling is a ranker.
        let pooling = Pooling::of_file(&keys)?.or(classifier.as_ref().map(|_| Pooling::Rank));
        let is_causal = prepared.is_causal;
        // Counts that are no single numbers, or are wrong, were judged by the graph, if it has a use for them.
        let count = |key: &str| keys.count(key).ok().flatten().unwrap_or(1).max(1);
        let sparsity = (count("expert_count") / count("expert_used_count")).clamp(1, 4);
        let architecture = keys.architecture;
        Ok(Model {
            file,
            adapters,
            architecture,
            context_length,
            sparsity,
            tokenizer,
            prepared,
            pooling,
            classifier,
            dense,
            is_causal,
            decoded,
            slots,
            activations: options.activations,
            pool,
        })
    }

    /// The file.
    pub fn file(&self) -> &gguf_container::Model {
        &self.file
    }

    /// The adapters with their scales, in order.
    pub fn adapters(&self) -> &[(Adapter, f32)] {
        &self.adapters
    }

    /// The value of `general.architecture`.
    pub fn architecture(&self) -> &str {
        &self.architecture
    }

    /// The tokenizer that the keys describe, as llama.cpp reads them.
    pub fn tokenizer(&self) -> &Encoder {
        &self.tokenizer
    }

    /// The graph with its head and its sizes.
    pub(crate) fn prepared(&self) -> &Prepared {
        &self.prepared
    }

    /// True for a matrix that a run multiplies with. False for the matrices of MTP layers, which are not executed.
    pub fn is_executed(&self, tensor: &str) -> bool {
        self.slots.contains_key(tensor)
    }

    /// True if rows are multiplied with a tensor as a matrix; false for norms, biases, convolutions and token
    /// shift factors.
    pub(crate) fn is_multiplied(&self, tensor: &str) -> bool {
        !self.decoded.contains(tensor)
    }

    /// Inputs of products with weights.
    pub fn activations(&self) -> Activations {
        self.activations
    }

    /// Replaces a matrix's blocks, (n_rows, n_columns) of `dtype` and little-endian, until
    /// [`Model::restore`], to measure the effect of one matrix without a file. Nothing is read or decoded;
    /// all products with the matrix, and rows looked up in it, use the new values. Must not be called while
    /// the model runs.
    ///
    /// # Errors
    /// [`Error::MissingTensor`] for anything but a matrix of this model, [`Error::TensorType`] for a type
    /// without a decoder, and [`Error::TensorShape`] for blocks of another length.
    pub fn replace(&self, tensor: &str, dtype: DType, blocks: Vec<u8>) -> Result<(), Error> {
        let missing = || Error::MissingTensor { name: tensor.to_owned() };
        let slot = self.slots.get(tensor).ok_or_else(missing)?;
        let (_, info) = self.file.tensor(tensor).ok_or_else(missing)?;
        if gguf_quant::codec(dtype).is_none() {
            return Err(Error::TensorType { name: tensor.to_owned(), dtype });
        }
        let expected = info.shape.n_bytes(dtype).ok().and_then(|n_bytes| usize::try_from(n_bytes).ok());
        if expected != Some(blocks.len()) {
            let expected = format!("{expected:?} bytes of {dtype}, found {}", blocks.len());
            return Err(Error::TensorShape { name: tensor.to_owned(), expected, found: info.shape });
        }
        // For a stack, all matrices together: their rows are contiguous.
        let n_rows = (info.shape.n_elems() / info.shape.row_elems().max(1)).max(1);
        let replaced = Replaced { dtype, row_bytes: blocks.len() / n_rows as usize, bytes: blocks };
        *slot.write().unwrap_or_else(PoisonError::into_inner) = Some(replaced);
        Ok(())
    }

    /// Gives all matrices their own blocks again.
    pub fn restore(&self) {
        for slot in self.slots.values() {
            *slot.write().unwrap_or_else(PoisonError::into_inner) = None;
        }
    }

    /// Tokens that are predicted: the length of a row of logits.
    pub fn n_vocab(&self) -> usize {
        self.prepared.n_vocab
    }

    /// The length of a row of [`Hidden`].
    pub fn n_embd(&self) -> usize {
        self.prepared.n_embd
    }

    /// Training context length in tokens; 0 if no key states it.
    pub fn context_length(&self) -> usize {
        self.context_length
    }

    /// Pooling of the file: by its key, or by its classifier.
    pub fn pooling(&self) -> Option<Pooling> {
        self.pooling
    }

    /// True if a token sees only earlier tokens.
    pub fn is_causal(&self) -> bool {
        self.is_causal
    }

    /// True if embeddings of images may replace tokens.
    pub fn takes_pictures(&self) -> bool {
        self.prepared.graph.takes_pictures()
    }

    /// True if an encoder reads the prompt and a decoder writes the answer, like in T5.
    pub fn is_encoder_decoder(&self) -> bool {
        self.prepared.graph.is_encoder_decoder()
    }

    /// Bands and frames of the features that the model must be given before tokens ([`Model::encode_audio`]);
    /// none for one that reads only text.
    pub fn audio_input(&self) -> Option<(usize, usize)> {
        self.prepared.graph.audio_input()
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
        if self.is_encoder_decoder() || !self.is_causal {
            return Err(Error::NoNextToken { architecture: architecture() });
        }
        if self.audio_input().is_some() {
            return Err(Error::NoFeatures { architecture: architecture() });
        }
        Ok(())
    }

    /// Embedding length: that of a row, unless the file has final matrices.
    pub fn vector_width(&self) -> usize {
        self.dense.width().unwrap_or(self.n_embd())
    }

    pub(crate) fn dense(&self) -> &Dense {
        &self.dense
    }

    pub(crate) fn classifier(&self) -> Option<&Classifier> {
        self.classifier.as_ref()
    }

    /// Does work on the model's threads.
    pub fn install<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        self.pool.install(work)
    }

    /// Number of sequences of this length to run together: enough rows that decoding weights is cheap
    /// compared with multiplying, few enough that activations stay below 200 MB. An expert gets only its
    /// share of the rows, so mixtures run up to four times as many, in up to 800 MB.
    pub fn sequences_at_once(&self, context: usize) -> usize {
        const ROWS: usize = 2048;
        const BYTES: usize = 200 << 20;
        let (most_rows, most_bytes) = (ROWS * self.sparsity, BYTES * self.sparsity);
        // A batch of many short sequences is bounded by rows, one of wide models by bytes.
        let row_bytes = self.prepared.row_floats.max(1) * size_of::<f32>();
        (most_rows.min(most_bytes / row_bytes) / context.max(1)).max(1)
    }

    /// Bytes of what lies between layers while sequences of this many tokens run together, about.
    pub fn bytes_at_once(&self, context: usize) -> usize {
        self.sequences_at_once(context) * context * self.prepared.row_floats * size_of::<f32>()
    }

    /// Number of logit rows to request at once, so that they take at most 64 MB.
    pub fn logit_rows_at_once(&self) -> usize {
        const BYTES: usize = 64 << 20;
        (BYTES / (self.n_vocab().max(1) * size_of::<f32>())).max(1)
    }

    /// Runs sequences together, so that each weight is decoded once for all.
    ///
    /// # Errors
    /// [`Error::TokenRange`], [`Error::OutputRange`], [`Error::TooLong`]; [`Error::NoFeatures`] for a model with
    /// [`Model::audio_input`], which runs only in sessions.
    pub fn run(
        &self,
        sequences: &[Sequence<'_>],
        observer: Option<&mut dyn Observer>,
    ) -> Result<Hidden, Error> {
        self.pass(sequences, 0, observer, None)
    }

    /// Reads a prompt and prepares its next-token prediction, or the first token of the answer in an
    /// encoder-decoder model.
    pub fn begin(&self, session: &mut Session, prompt: &[u32]) -> Result<Hidden, Error> {
        let spans = vec![Span { rows: 0..prompt.len(), position: 0, outputs: 0..0 }];
        let mut pass = Pass::new(prompt.to_vec(), spans, self.activations, None, None);
        match self.pool.install(|| self.prepared.graph.encode(&mut pass))? {
            // An encoder has read the prompt: the decoder begins with its start token. Without one the prompt is the beginning.
            Some(encoded) => {
                *session = Session::with_cross_kv(encoded.cross_kv);
                self.continue_with(session, &[encoded.start])
            }
            None => self.continue_with(session, prompt),
        }
    }

    /// Runs the encoder over a sound. The session forgets what was before, and the tokens that
    /// [`Model::continue_with`] then gets, from the first on, belong to this sound.
    ///
    /// # Errors
    /// [`Error::NoAudioInput`] for a model that reads only text, [`Error::FeatureShape`] unless the features are
    /// those that [`Model::audio_input`] says.
    pub fn encode_audio(&self, session: &mut Session, features: Features<'_>) -> Result<(), Error> {
        let no_input = || Error::NoAudioInput { architecture: self.architecture.clone() };
        let expected = self.audio_input().ok_or_else(no_input)?;
        let (found, n_values) = ((features.n_mels, features.n_frames), features.values.len());
        if found != expected || found.0.checked_mul(found.1) != Some(n_values) {
            return Err(Error::FeatureShape { expected, found, n_values });
        }
        // The encoder's second convolution takes every other frame, so that its layers have a row for each two.
        let spans = vec![Span { rows: 0..features.n_frames / 2, position: 0, outputs: 0..0 }];
        let mut pass = Pass::new(Vec::new(), spans, self.activations, None, None);
        let cross_kv = self.pool.install(|| self.prepared.graph.encode_audio(features, &mut pass))?;
        *session = Session::with_cross_kv(cross_kv);
        Ok(())
    }

    /// Reads tokens and pictures that follow what earlier calls gave the same session. The predictions of the `outputs` rows
    /// are, counted over all pieces.
    ///
    /// # Errors
    /// [`Error::NoPictureInput`] for a model that takes only tokens, [`Error::ProjectorWidth`], and as [`Model::run`].
    pub fn read(
        &self,
        session: &mut Session,
        pieces: &[Piece<'_>],
        outputs: Range<usize>,
    ) -> Result<Hidden, Error> {
        let (mut tokens, mut pictures, mut grid) = (Vec::new(), Vec::new(), Vec::new());
        // Rows of an image form a plane: they share the position of the first one, and the next token is as
        // far away as the image is long or wide.
        let mut next = (session.n_past - session.n_shared) as u32;
        for piece in pieces {
            let first = tokens.len();
            match piece {
                Piece::Tokens(own) => {
                    tokens.extend_from_slice(own);
                    grid.extend((next..).take(own.len()).map(|position| [position; 3]));
                    next += own.len() as u32;
                }
                Piece::Picture(embedding) => {
                    let (n, found) = (embedding.rows.nrows(), embedding.rows.ncols());
                    if !self.prepared.graph.takes_pictures() {
                        return Err(Error::NoPictureInput { architecture: self.architecture.clone() });
                    }
                    if found != self.n_embd() {
                        return Err(Error::ProjectorWidth { found, expected: self.n_embd() });
                    }
                    // The first token of a vocabulary pads; its embedding is replaced.
                    tokens.resize(first + n, 0);
                    pictures.push(Placed { rows: first..first + n, embedding });
                    match embedding.grid {
                        None => {
                            grid.extend((next..).take(n).map(|position| [position; 3]));
                            next += n as u32;
                        }
                        Some((rows, columns)) => {
                            let place =
                                |i: usize| [next, next + (i / columns) as u32, next + (i % columns) as u32];
                            grid.extend((0..n).map(place));
                            next += rows.max(columns) as u32;
                        }
                    }
                }
            }
        }
        let n = tokens.len();
        if outputs.start > outputs.end || outputs.end > n {
            return Err(Error::OutputRange { start: outputs.start, end: outputs.end, len: n });
        }
        let (ends, end) = (vec![outputs.len()], session.n_past + n);
        let spans = vec![Span { rows: 0..n, position: session.n_past, outputs }];
        let mut pass = Pass::new(tokens, spans, self.activations, None, Some(session));
        pass.pictures = pictures;
        pass.grid = Some(grid);
        let rows = self.pool.install(|| self.prepared.graph.run(&mut pass))?;
        drop(pass);
        (session.n_past, session.n_shared) = (end, end - next as usize);
        Ok(Hidden::new(rows.detached(), ends))
    }

    /// Runs tokens that follow those of earlier calls with the same session, and prepares the prediction
    /// after the last one.
    pub fn continue_with(&self, session: &mut Session, tokens: &[u32]) -> Result<Hidden, Error> {
        // Only the last row has a new prediction.
        let outputs = tokens.len().saturating_sub(1)..tokens.len();
        if session.n_shared > 0 {
            return self.read(session, &[Piece::Tokens(tokens)], outputs);
        }
        let sequence = Sequence { tokens, outputs };
        let hidden = self.pass(&[sequence], session.n_past, None, Some(session))?;
        session.n_past += tokens.len();
        Ok(hidden)
    }

    /// As [`Model::continue_with`], but returns the predictions after the tokens from index `first`, and the inputs of `layers`:
    /// (n, layers * n_embd), with the inputs of a token next to each other.
    pub(crate) fn continue_with_states(
        &self,
        session: &mut Session,
        tokens: &[u32],
        first: usize,
        layers: &[usize],
    ) -> Result<(Hidden, Rows), Error> {
        let n = tokens.len();
        let spans = vec![Span { rows: 0..n, position: session.n_past, outputs: first.min(n)..n }];
        let mut pass = Pass::new(tokens.to_vec(), spans, self.activations, None, Some(session));
        pass.layer_states = LayerStates { layers: layers.to_vec(), rows: vec![None; layers.len()] };
        let rows = self.pool.install(|| self.prepared.graph.run(&mut pass))?;
        let states = std::mem::take(&mut pass.layer_states.rows);
        drop(pass);
        session.n_past += n;
        let width = self.n_embd();
        let mut all = Rows::zeros(n, layers.len() * width);
        for (i, (layer, rows)) in layers.iter().zip(states).enumerate() {
            let missing = || Error::NoLayerStates { architecture: self.architecture.clone(), layer: *layer };
            let rows = rows.filter(|rows| rows.ncols() == width).ok_or_else(missing)?;
            all.slice_mut(s![.., i * width..(i + 1) * width]).assign(&*rows);
        }
        Ok((Hidden::new(rows.detached(), vec![n - first.min(n)]), all))
    }

    /// Makes a batch of sequences, and runs `with` on it.
    pub(crate) fn batch<R>(
        &self,
        sequences: &[Sequence<'_>],
        observer: Option<&mut dyn Observer>,
        with: impl FnOnce(Pass<'_, '_>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let (tokens, spans, _) = joined(sequences, 0)?;
        with(Pass::new(tokens, spans, self.activations, observer, None))
    }

    fn pass(
        &self,
        sequences: &[Sequence<'_>],
        position: usize,
        observer: Option<&mut dyn Observer>,
        session: Option<&mut Session>,
    ) -> Result<Hidden, Error> {
        let (tokens, spans, ends) = joined(sequences, position)?;
        let mut pass = Pass::new(tokens, spans, self.activations, observer, session);
        let rows = self.pool.install(|| self.prepared.graph.run(&mut pass))?;
        // Hidden rows may be kept for as long as the caller likes; the pass's memory need not be.
        Ok(Hidden::new(rows.detached(), ends))
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
        let x = hidden.rows().slice(s![rows, ..]);
        if let Some(observer) = observer {
            let rows = x.as_slice().expect("whole rows are contiguous");
            observer.mul_mat(&head.weight.name, Part::Whole, rows, head.weight.n_in);
        }
        let shape = (x.nrows(), self.prepared.n_vocab);
        let out = ArrayViewMut2::from_shape(shape, out).expect("the caller's buffer holds these rows");
        self.pool.install(|| head.run(x, self.activations, out));
        Ok(())
    }
}

/// Tokens of all sequences, concatenated; the span of each; the end of the requested rows of each, counted
/// among those.
type Joined = (Vec<u32>, Vec<Span>, Vec<usize>);

fn joined(sequences: &[Sequence<'_>], position: usize) -> Result<Joined, Error> {
    let (mut tokens, mut spans, mut ends) = (Vec::new(), Vec::new(), Vec::new());
    let mut n_wanted = 0;
    for sequence in sequences {
        let Range { start, end } = sequence.outputs;
        if start > end || end > sequence.tokens.len() {
            return Err(Error::OutputRange { start, end, len: sequence.tokens.len() });
        }
        let first = tokens.len();
        tokens.extend_from_slice(sequence.tokens);
        spans.push(Span { rows: first..tokens.len(), position, outputs: first + start..first + end });
        n_wanted += end - start;
        ends.push(n_wanted);
    }
    Ok((tokens, spans, ends))
}

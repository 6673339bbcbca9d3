//! Rounds the rows of a whole model: which matrix how, and what it gained.
//!
//! Rows come in pieces, from several threads, in any order. What all rows of a matrix share (its second moments, their factor, what
//! was chosen on held-out tokens) is made when the first of them comes and kept while others may: at most [`KEPT`] matrices that no
//! thread is at, and one for each thread. A factor of a matrix with n columns takes 4 n^2 bytes or a little more.

mod both;

use std::{
    collections::BTreeMap,
    ops::Range,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use gguf::Advice;
use quant::Level;
use rayon::{ThreadPool, prelude::*};
use tensor::DType;

use self::both::Sides;
use crate::{
    Error, Gram,
    moments::MomentsCache,
    probe::Replacement,
    rounding::{Choice, Rounding, RoundingOptions, choose, is_refinable, output_error},
};

/// Matrices that are kept when no thread is at them: the one whose rows come now and the one before it.
const KEPT: usize = 2;

/// Rows of a matrix that decide how it is rounded, evenly spread: enough that the mean of their errors is known to a few percent.
const SAMPLE_ROWS: u64 = 64;

/// The embedding of tokens. Where it is the output matrix too, its rows are multiplied with what leaves the last layer, and taken for
/// what enters the first, where each column counts alike.
const EMBEDDING: &str = "token_embd.weight";

/// What an error in a column counts where rows are taken, as a share of what the mean column counts where they are multiplied. Files
/// were as good at 0.1 and at 0.5 (`docs/notes/quality.md`).
const EMBEDDING_SHARE: f32 = 0.2;

/// Rows that a thread encodes at once.
const PIECE_ROWS: usize = 64;

/// What became of a matrix.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The tensor.
    pub tensor: String,
    /// Which matrix of a stack.
    pub expert: usize,
    /// Whether it is one of a stack.
    pub of_stack: bool,
    /// Its type.
    pub dtype: DType,
    /// How it was rounded, or why it was left as the codec made it.
    pub how: Result<RoundingOptions, Left>,
    /// Mean squares of its output's error on held-out tokens, of the sampled rows: the codec's, and ours.
    pub held_out: Option<(f64, f64)>,
    /// Where both sides were used: `tr(G E C E^T)` on held-out tokens, of sampled rows, by one side and by both.
    pub both_sides: Option<(f64, f64)>,
}

/// Why a matrix is left as the codec made it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// No token went through it.
    NotReached,
    /// On held-out tokens nothing was better.
    NoBetter,
}

/// Time that the parts of the work took, added over all threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Spent {
    /// Choosing and factoring.
    pub choosing: Duration,
    /// Rounding rows.
    pub rounding: Duration,
}

/// A run of neighbouring rows of one tensor.
#[derive(Debug, Clone)]
pub struct StockRows<'a> {
    /// The tensor.
    pub tensor: &'a str,
    /// The type of the blocks.
    pub dtype: DType,
    /// Counted over all matrices of a stack.
    pub rows: Range<u64>,
    /// (rows, n_columns) f32, row-major.
    pub values: &'a [f32],
    /// The importance weights that the codec took: (n_columns).
    pub weights: Option<&'a [f32]>,
    /// The CPU level of the kernels.
    pub level: Level,
}

/// A tensor, which matrix of a stack, and the type that it becomes.
type Key = (String, usize, DType);

/// What the rows of a matrix share, made by whoever comes first; none where they stay as they are.
type Prepared = OnceLock<Result<Option<Made>, Arc<Error>>>;

/// What rows of a matrix are made of.
enum Made {
    /// Each by itself.
    ByRows(Box<Rounding>),
    /// All together: the blocks of the whole matrix.
    Whole(Vec<u8>),
}

/// A matrix that rows may come of.
struct Ready {
    key: Key,
    prepared: Arc<Prepared>,
}

/// Rounds the rows of a model's matrices.
pub struct Refiner {
    base: gguf::Model,
    moments: MomentsCache,
    /// Of gradients at what comes out.
    outputs: Option<MomentsCache>,
    candidates: Vec<RoundingOptions>,
    /// Factors are made by all threads together, while those that want one wait.
    pool: ThreadPool,
    ready: Mutex<Vec<Ready>>,
    outcomes: Mutex<BTreeMap<Key, Outcome>>,
    choosing_ns: AtomicU64,
    rounding_ns: AtomicU64,
}

impl std::fmt::Debug for Refiner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Refiner").field("candidates", &self.candidates).finish_non_exhaustive()
    }
}

impl Refiner {
    /// For the matrices of `base`, by moments of its own inputs. Of `candidates` the best on held-out tokens is taken for each
    /// matrix.
    ///
    /// # Errors
    /// [`eval::Error::Threads`].
    pub fn new(
        base: gguf::Model,
        moments: MomentsCache,
        candidates: Vec<RoundingOptions>,
        n_threads: usize,
    ) -> Result<Refiner, Error> {
        let pool = eval::thread_pool(n_threads)?;
        Ok(Refiner {
            base,
            moments,
            outputs: None,
            candidates,
            pool,
            ready: Mutex::default(),
            outcomes: Mutex::default(),
            choosing_ns: AtomicU64::new(0),
            rounding_ns: AtomicU64::new(0),
        })
    }

    /// Whether there is something to do for a tensor that becomes `dtype`.
    pub fn wants(&self, tensor: &str, dtype: DType) -> bool {
        // Of rows that are taken and never multiplied nothing is known.
        let is_multiplied = tensor != EMBEDDING || self.moments.knows(tensor);
        is_multiplied && is_refinable(dtype) && self.base.tensor(tensor).is_some()
    }

    /// Changes levels in `blocks`, which the codec made of `rows`.
    ///
    /// # Errors
    /// Moments that cannot be read, or that are of another shape.
    pub fn refine(&self, rows: &StockRows<'_>, blocks: &mut [u8]) -> Result<(), Error> {
        let Some((_, info)) = self.base.tensor(rows.tensor) else { return Ok(()) };
        let (n_columns, rows_per_matrix) = (info.shape.row_elems() as usize, info.shape.dim(1).max(1));
        let n_rows = (rows.rows.end - rows.rows.start) as usize;
        let row_bytes = blocks.len() / n_rows.max(1);
        let mut start = rows.rows.start;
        while start < rows.rows.end {
            let expert = start / rows_per_matrix;
            let end = ((expert + 1) * rows_per_matrix).min(rows.rows.end);
            let at = (start - rows.rows.start) as usize..(end - rows.rows.start) as usize;
            let prepared = self.prepared(rows, expert as usize);
            let prepared = prepared.get_or_init(|| {
                let began = Instant::now();
                let made = self.pool.install(|| self.prepare(rows, expert, rows_per_matrix, n_columns));
                add(&self.choosing_ns, began);
                made.map_err(Arc::new)
            });
            match prepared {
                Err(error) => return Err(Error::Shared(Arc::clone(error))),
                Ok(None) => {}
                Ok(Some(Made::Whole(all))) => {
                    let first = (start - expert * rows_per_matrix) as usize * row_bytes;
                    let blocks = &mut blocks[at.start * row_bytes..at.end * row_bytes];
                    let whole = all.get(first..first + blocks.len());
                    let (found, expected) = (all.len(), first + blocks.len());
                    let length = || Error::Length { what: "blocks in bytes", found, expected };
                    blocks.copy_from_slice(whole.ok_or_else(length)?);
                }
                Ok(Some(Made::ByRows(rounding))) => {
                    let began = Instant::now();
                    let values = &rows.values[at.start * n_columns..at.end * n_columns];
                    let blocks = &mut blocks[at.start * row_bytes..at.end * row_bytes];
                    self.pool.install(|| rounding.refine(rows.dtype, values, blocks))?;
                    add(&self.rounding_ns, began);
                }
            }
            start = end;
        }
        Ok(())
    }

    /// A whole tensor as a codec makes it, with importance weights (n_matrices, n_columns) where there are some.
    ///
    /// # Errors
    /// [`Error::At`] for a type that is not encoded, or one that needs weights.
    pub fn stock(
        &self,
        tensor: &str,
        dtype: DType,
        weights: Option<&[f32]>,
        level: Level,
    ) -> Result<Replacement, Error> {
        let (file, info) = self.tensor(tensor)?;
        let named =
            |error: quant::CodecError| Error::At { tensor: tensor.to_owned(), error: Box::new(error.into()) };
        let bytes = file.data(info)?;
        let (n_columns, rows_per_matrix) =
            (info.shape.row_elems() as usize, info.shape.dim(1).max(1) as usize);
        let n_rows = info.shape.n_elems() as usize / n_columns.max(1);
        let row_bytes = bytes.len() / n_rows.max(1);
        let out_bytes = n_columns / dtype.block_elems() as usize * dtype.block_bytes() as usize;
        let mut blocks = vec![0; n_rows * out_bytes];
        // Rows that a thread encodes at once; no piece has rows of two matrices, whose weights differ.
        let piece = |matrix: usize, rows: &[u8], out: &mut [u8]| {
            let mut values = vec![0.0; rows.len() / row_bytes.max(1) * n_columns];
            quant::decode(info.dtype, level, &file.endian().to_little(info.dtype, rows), &mut values)?;
            let weights = weights.map(|all| weights_of(all, matrix, n_columns));
            quant::encode(dtype, level, quant::Rows { values: &values, row_elems: n_columns, weights }, out)
        };
        let matrices = bytes.par_chunks((rows_per_matrix * row_bytes).max(1));
        let encode = |(matrix, (bytes, out)): (usize, (&[u8], &mut [u8]))| {
            let pieces = bytes
                .par_chunks((PIECE_ROWS * row_bytes).max(1))
                .zip(out.par_chunks_mut((PIECE_ROWS * out_bytes).max(1)));
            pieces.try_for_each(|(bytes, out)| piece(matrix, bytes, out))
        };
        let outs = blocks.par_chunks_mut((rows_per_matrix * out_bytes).max(1));
        self.pool.install(|| matrices.zip(outs).enumerate().try_for_each(encode)).map_err(named)?;
        // Whoever runs the base has it in memory already.
        file.advise(info, Advice::DoneWith);
        Ok(Replacement { dtype, blocks })
    }

    /// Mean squares of the output's error that codecs make of a tensor at each of some types, on sampled rows: of a stack, of the
    /// first matrix that tokens went through. Of a tensor whose input nobody knows (token embeddings, whose rows are taken) mean squares
    /// of the rows' own error.
    ///
    /// # Errors
    /// As [`Refiner::stock`]; moments that cannot be read.
    pub fn stock_errors(
        &self,
        tensor: &str,
        dtypes: &[DType],
        weights: Option<&[f32]>,
        level: Level,
    ) -> Result<Vec<f64>, Error> {
        let (_, info) = self.tensor(tensor)?;
        let (n_columns, rows_per_matrix) = (info.shape.row_elems() as usize, info.shape.dim(1).max(1));
        let n_matrices = info.shape.n_elems() / (info.shape.row_elems() * rows_per_matrix).max(1);
        let known = self.first_moments(tensor, n_matrices, n_columns)?;
        let matrix = known.as_ref().map_or(0, |(matrix, _)| *matrix);
        let weights = weights.map(|all| weights_of(all, matrix as usize, n_columns));
        let named = |error| Error::At { tensor: tensor.to_owned(), error: Box::new(error) };
        let sampled = sampled(matrix, rows_per_matrix);
        let values = self.decoded(tensor, &sampled, n_columns, level).map_err(named)?;
        let error = |dtype: &DType| {
            let rows = StockRows { tensor, dtype: *dtype, rows: 0..0, values: &values, weights, level };
            let blocks = self.encode(&values, n_columns, &rows).map_err(named)?;
            match &known {
                Some((_, fit)) => output_error(fit, *dtype, &values, &blocks, n_columns),
                None => square_error(*dtype, level, &values, &blocks),
            }
        };
        self.pool.install(|| dtypes.iter().map(error).collect())
    }

    /// A tensor of the base, which has to be there.
    fn tensor(&self, name: &str) -> Result<(&gguf::File, &gguf::TensorInfo), Error> {
        let missing = || eval::Error::MissingTensor { name: name.to_owned() };
        Ok(self.base.tensor(name).ok_or_else(missing)?)
    }

    /// The moments of what goes into a matrix, over the tokens to learn from and over those held out. Of an embedding that is the output
    /// matrix too both uses count.
    fn moments_of(&self, tensor: &str, index: Option<usize>) -> Result<Option<(Gram, Gram)>, Error> {
        let mut grams = self.moments.gram(tensor, index)?;
        if let (EMBEDDING, Some((fit, held))) = (tensor, &mut grams) {
            fit.add_identity(EMBEDDING_SHARE);
            held.add_identity(EMBEDDING_SHARE);
        }
        Ok(grams)
    }

    /// The first matrix of a tensor that tokens went through, and the moments of what did.
    fn first_moments(
        &self,
        tensor: &str,
        n_matrices: u64,
        n_columns: usize,
    ) -> Result<Option<(u64, Gram)>, Error> {
        for matrix in 0..n_matrices {
            let index = (n_matrices > 1).then_some(matrix as usize);
            let Some((fit, _)) = self.moments_of(tensor, index)? else { continue };
            if fit.n_tokens() > 0 && fit.n_columns() == n_columns {
                return Ok(Some((matrix, fit)));
            }
        }
        Ok(None)
    }

    /// Lets go of what rows of the last matrices share: some hundreds of megabytes of wide ones. Rows that still come have it made anew.
    pub fn release(&self) {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// What became of the matrices so far, by tensor and expert.
    pub fn outcomes(&self) -> Vec<Outcome> {
        let outcomes = self.outcomes.lock().unwrap_or_else(PoisonError::into_inner);
        outcomes.values().cloned().collect()
    }

    /// How long it took so far.
    pub fn spent(&self) -> Spent {
        let time = |counter: &AtomicU64| Duration::from_nanos(counter.load(Ordering::Relaxed));
        Spent { choosing: time(&self.choosing_ns), rounding: time(&self.rounding_ns) }
    }

    /// The place of a matrix among those that are kept. Whoever finds it empty fills it, others wait.
    fn prepared(&self, rows: &StockRows<'_>, expert: usize) -> Arc<Prepared> {
        let mut ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it = |it: &Ready| it.key.0 == rows.tensor && it.key.1 == expert && it.key.2 == rows.dtype;
        if let Some(found) = ready.iter().find(|it| is_it(it)) {
            return Arc::clone(&found.prepared);
        }
        // Jobs come in the order of the tensors: what is oldest and nobody's is not asked for again, or seldom.
        while ready.len() >= KEPT
            && let Some(unused) = ready.iter().position(|it| Arc::strong_count(&it.prepared) == 1)
        {
            ready.remove(unused);
        }
        let prepared = Arc::new(OnceLock::new());
        let key = (rows.tensor.to_owned(), expert, rows.dtype);
        ready.push(Ready { key, prepared: Arc::clone(&prepared) });
        prepared
    }

    /// Chooses how a matrix is rounded, by rows of it spread evenly, and makes its factor.
    fn prepare(
        &self,
        rows: &StockRows<'_>,
        expert: u64,
        rows_per_matrix: u64,
        n_columns: usize,
    ) -> Result<Option<Made>, Error> {
        let of_stack = self.base.tensor(rows.tensor).is_some_and(|(_, info)| info.shape.dim(2) > 1);
        let note = |how, held_out| {
            let (tensor, dtype) = (rows.tensor.to_owned(), rows.dtype);
            let outcome =
                Outcome { tensor, expert: expert as usize, of_stack, dtype, how, held_out, both_sides: None };
            let mut outcomes = self.outcomes.lock().unwrap_or_else(PoisonError::into_inner);
            outcomes.insert((rows.tensor.to_owned(), expert as usize, dtype), outcome);
        };
        let grams = self.moments_of(rows.tensor, of_stack.then_some(expert as usize))?;
        // Of what nothing is known nothing is said: whoever gathered has said why.
        let Some((fit, held)) = grams else { return Ok(None) };
        if fit.n_tokens() == 0 || held.n_tokens() == 0 {
            note(Err(Left::NotReached), None);
            return Ok(None);
        }
        let named = |error| Error::At { tensor: rows.tensor.to_owned(), error: Box::new(error) };
        for gram in [&fit, &held] {
            if gram.n_columns() != n_columns {
                let (tensor, found) = (rows.tensor.to_owned(), gram.n_columns());
                return Err(Error::MomentsDiffer { tensor, expected: n_columns, found });
            }
        }
        let sampled = sampled(expert, rows_per_matrix);
        let values = self.decoded(rows.tensor, &sampled, n_columns, rows.level).map_err(named)?;
        let blocks = self.encode(&values, n_columns, rows).map_err(named)?;
        let chosen = choose(&fit, &held, rows.dtype, &values, &blocks, &self.candidates);
        match chosen {
            // Whatever is in columns that nothing ever came into, nothing comes out.
            Err(Error::InputsAreZero) => {
                note(Err(Left::NotReached), None);
                return Ok(None);
            }
            chosen => chosen.map_err(named),
        }
        .and_then(|chosen| match chosen {
            None => {
                let stock = output_error(&held, rows.dtype, &values, &blocks, n_columns).map_err(named)?;
                note(Err(Left::NoBetter), Some((stock, stock)));
                Ok(None)
            }
            Some(Choice { options, stock_error, error }) => {
                note(Ok(options), Some((stock_error, error)));
                let shape = (rows_per_matrix, n_columns);
                // Experts see a few tokens each, and their gradients are not gathered.
                let outputs = if of_stack { None } else { self.outputs_of(rows, shape)? };
                if let Some((fit_outputs, held_outputs)) = outputs {
                    let sides = Sides { fit: fit.clone(), held: held.clone(), fit_outputs, held_outputs };
                    if let Some(rounded) = self.round_both(rows, &options, sides).map_err(named)? {
                        let mut outcomes = self.outcomes.lock().unwrap_or_else(PoisonError::into_inner);
                        let key = (rows.tensor.to_owned(), expert as usize, rows.dtype);
                        if let Some(outcome) = outcomes.get_mut(&key) {
                            (outcome.how, outcome.both_sides) = (Ok(rounded.options), Some(rounded.held_out));
                        }
                        return Ok(Some(Made::Whole(rounded.blocks)));
                    }
                }
                // What decided is decided: now the tokens that were held out count too.
                let mut all = fit;
                all.add(&held);
                let rounding = Rounding::for_type(&all, &options, rows.dtype).map_err(named)?;
                Ok(Some(Made::ByRows(Box::new(rounding))))
            }
        })
    }

    /// What the codec makes of rows (n_rows, n_columns) of the matrix that `rows` are of.
    fn encode(&self, values: &[f32], n_columns: usize, rows: &StockRows<'_>) -> Result<Vec<u8>, Error> {
        let (block_elems, block_bytes) =
            (rows.dtype.block_elems() as usize, rows.dtype.block_bytes() as usize);
        let mut blocks = vec![0; values.len() / block_elems * block_bytes];
        let pieces = values.par_chunks((PIECE_ROWS * n_columns).max(1));
        let outs = blocks.par_chunks_mut((PIECE_ROWS * n_columns / block_elems * block_bytes).max(1));
        pieces.zip(outs).try_for_each(|(values, out)| {
            let to_encode = quant::Rows { values, row_elems: n_columns, weights: rows.weights };
            quant::encode(rows.dtype, rows.level, to_encode, out)
        })?;
        Ok(blocks)
    }

    /// Rows of a tensor, counted over all matrices of a stack: (wanted, n_columns).
    fn decoded(
        &self,
        tensor: &str,
        wanted: &[u64],
        n_columns: usize,
        level: Level,
    ) -> Result<Vec<f32>, Error> {
        let (file, info) = self.tensor(tensor)?;
        let bytes = file.data(info)?;
        let n_rows = info.shape.n_elems() / info.shape.row_elems().max(1);
        let row_bytes = bytes.len() / (n_rows as usize).max(1);
        let mut values = vec![0.0; wanted.len() * n_columns];
        for (row, out) in wanted.iter().zip(values.chunks_exact_mut(n_columns.max(1))) {
            let at = *row as usize * row_bytes;
            let stored = file.endian().to_little(info.dtype, &bytes[at..at + row_bytes]);
            quant::decode(info.dtype, level, &stored, out)?;
        }
        file.advise(info, Advice::DoneWith);
        Ok(values)
    }
}

/// The rows of a matrix of a stack that decide how it is rounded.
fn sampled(matrix: u64, rows_per_matrix: u64) -> Vec<u64> {
    let n_rows = rows_per_matrix.min(SAMPLE_ROWS);
    (0..n_rows).map(|index| matrix * rows_per_matrix + index * rows_per_matrix / n_rows).collect()
}

/// The importance weights of one matrix among those of a stack, or the only ones.
fn weights_of(all: &[f32], matrix: usize, n_columns: usize) -> &[f32] {
    let at = matrix % (all.len() / n_columns).max(1) * n_columns;
    &all[at..at + n_columns]
}

/// The sum of squares of what is lost of `values` in `blocks`.
fn square_error(dtype: DType, level: Level, values: &[f32], blocks: &[u8]) -> Result<f64, Error> {
    let mut found = vec![0.0; values.len()];
    quant::decode(dtype, level, blocks, &mut found)?;
    let square = |(value, found): (&f32, &f32)| (f64::from(*value) - f64::from(*found)).powi(2);
    Ok(values.iter().zip(&found).map(square).sum())
}

fn add(counter: &AtomicU64, began: Instant) {
    counter.fetch_add(began.elapsed().as_nanos() as u64, Ordering::Relaxed);
}

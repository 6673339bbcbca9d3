//! Rounds the rows of a model and records the gain of each matrix.
//!
//! Rows come in pieces, from several threads, in any order. Data that all rows of a matrix share (Hessian,
//! factor, choices on held-out tokens) is computed when its first row comes and kept while more may come: for
//! at most [`KEPT`] idle matrices and one per thread. The factor of a matrix with n columns takes about 4 n^2
//! bytes.

mod kronecker;
mod shared;

use std::{
    collections::BTreeMap,
    ops::Range,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use gguf_container::Advice;
use gguf_quant::Level;
use gguf_types::DType;
use rayon::{ThreadPool, prelude::*};

use self::{
    kronecker::{Rounded, Sides},
    shared::{OfInput, Shared},
};
use crate::{
    Error, Gram,
    moments::MomentsCache,
    probe::Replacement,
    rounding::{Choice, Rounding, RoundingOptions, is_refinable, output_error},
};

/// Matrices whose shared data is kept while no thread uses it: the current and the previous one.
const KEPT: usize = 2;

/// Evenly spread rows that decide how a matrix is rounded; enough to know the mean of their errors to a few
/// percent.
const SAMPLE_ROWS: u64 = 64;

/// The token embedding. If it is also the output matrix, its rows are multiplied with the final hidden state,
/// and also looked up as input, for which all columns count equally.
const EMBEDDING: &str = "token_embd.weight";

/// Weight of a column's error in the look-up, as a share of the mean weight in the product. 0.1 and 0.5 gave
/// equally good files (`docs/notes/quality.md`).
const EMBEDDING_SHARE: f32 = 0.2;

/// Number of rows that a thread encodes at once.
const PIECE_ROWS: usize = 64;

/// Result for a matrix.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The tensor.
    pub tensor: String,
    /// Index of the matrix in a stack.
    pub expert: usize,
    /// True if the matrix is part of a stack.
    pub is_expert: bool,
    /// Its type.
    pub dtype: DType,
    /// The rounding options, or the reason for keeping the codec's blocks.
    pub result: Result<RoundingOptions, Unrounded>,
    /// Mean squared output errors of sampled rows on held-out tokens: before and after rounding.
    pub held_out: Option<(f64, f64)>,
    /// True if output statistics were used too.
    pub both_sides: bool,
}

/// Reason for keeping the codec's blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unrounded {
    /// No token reached the matrix.
    NotReached,
    /// No candidate was better on held-out tokens.
    NoBetter,
}

/// Time of each part of the work, summed over threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Spent {
    /// Choosing options and factoring.
    pub choosing: Duration,
    /// Rounding rows.
    pub rounding: Duration,
}

/// Consecutive rows of one tensor.
#[derive(Debug, Clone)]
pub struct StockRows<'a> {
    /// The tensor.
    pub tensor: &'a str,
    /// The type of the blocks.
    pub dtype: DType,
    /// Row range, counted over all matrices of a stack.
    pub rows: Range<u64>,
    /// (rows, n_columns) f32, row-major.
    pub values: &'a [f32],
    /// Importance weights that the codec used: (n_columns).
    pub weights: Option<&'a [f32]>,
    /// The CPU level of the kernels.
    pub level: Level,
}

/// Tensor, index in the stack, and target type.
type Key = (String, usize, DType);

/// Shared data of a matrix, computed by the first thread that needs it; `None` if the blocks stay unchanged.
type Prepared = OnceLock<Result<Option<Made>, Arc<Error>>>;

enum Made {
    ByRows(Arc<Rounding>),
    /// Blocks of a matrix whose rows were rounded together.
    Whole(Vec<u8>),
}

/// A matrix with shared data.
struct Ready {
    key: Key,
    prepared: Arc<Prepared>,
}

/// Rounds the rows of a model's matrices.
pub struct Refiner {
    base: gguf_container::Model,
    moments: MomentsCache,
    outputs: Option<MomentsCache>,
    candidates: Vec<RoundingOptions>,
    /// All threads compute a factor together while others wait for it.
    pool: ThreadPool,
    ready: Mutex<Vec<Ready>>,
    shared: Shared,
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
    /// A refiner for the matrices of `base`, with separate Hessians of its inputs. For each matrix, the best
    /// of `candidates` on held-out tokens is used.
    ///
    /// # Errors
    /// [`gguf_runtime::Error::Threads`].
    pub fn new(
        base: gguf_container::Model,
        moments: MomentsCache,
        candidates: Vec<RoundingOptions>,
        n_threads: usize,
    ) -> Result<Refiner, Error> {
        let pool = gguf_runtime::thread_pool(n_threads)?;
        Ok(Refiner {
            base,
            moments,
            outputs: None,
            candidates,
            pool,
            ready: Mutex::default(),
            shared: Shared::default(),
            outcomes: Mutex::default(),
            choosing_ns: AtomicU64::new(0),
            rounding_ns: AtomicU64::new(0),
        })
    }

    /// True if a tensor that becomes `dtype` can be rounded.
    pub fn applies_to(&self, tensor: &str, dtype: DType) -> bool {
        // Rows that are only looked up have no Hessian.
        let is_multiplied = tensor != EMBEDDING || self.moments.knows(tensor);
        is_multiplied && is_refinable(dtype) && self.base.tensor(tensor).is_some()
    }

    /// Changes levels in `blocks`, the codec's encoding of `rows`.
    ///
    /// # Errors
    /// Hessians that cannot be read or have another shape.
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
                let index =
                    (rows_per_matrix < info.shape.n_elems() / n_columns as u64).then_some(expert as usize);
                let place = self.moments.shared_place(rows.tensor, index);
                let input = place.map_or_else(Arc::default, |place| self.shared.of(place));
                // This thread is not one of the pool, which would wait for itself.
                let mut input = input.lock().unwrap_or_else(PoisonError::into_inner);
                let input = &mut *input;
                let made =
                    self.pool.install(|| self.prepare(rows, expert, rows_per_matrix, n_columns, input));
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
                    let length = || Error::Length { quantity: "blocks in bytes", found, expected };
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

    /// Encodes a tensor like the codec, with importance weights (n_matrices, n_columns) if given.
    ///
    /// # Errors
    /// [`Error::At`] for a type that cannot be encoded or that needs weights.
    pub fn stock(
        &self,
        tensor: &str,
        dtype: DType,
        weights: Option<&[f32]>,
        level: Level,
    ) -> Result<Replacement, Error> {
        let (file, info) = self.tensor(tensor)?;
        let named = |error: gguf_quant::CodecError| Error::At {
            tensor: tensor.to_owned(),
            error: Box::new(error.into()),
        };
        let bytes = file.data(info)?;
        let (n_columns, rows_per_matrix) =
            (info.shape.row_elems() as usize, info.shape.dim(1).max(1) as usize);
        let n_rows = info.shape.n_elems() as usize / n_columns.max(1);
        let row_bytes = bytes.len() / n_rows.max(1);
        let out_bytes = n_columns / dtype.block_elems() as usize * dtype.block_bytes() as usize;
        let mut blocks = vec![0; n_rows * out_bytes];
        // Rows that a thread encodes at once. A piece never spans two matrices, whose weights differ.
        let piece = |matrix: usize, rows: &[u8], out: &mut [u8]| {
            let mut values = vec![0.0; rows.len() / row_bytes.max(1) * n_columns];
            gguf_quant::decode(info.dtype, level, &file.endian().to_little(info.dtype, rows), &mut values)?;
            let weights = weights.map(|all| weights_of(all, matrix, n_columns));
            gguf_quant::encode(
                dtype,
                level,
                gguf_quant::Rows { values: &values, row_elems: n_columns, weights },
                out,
            )
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
        // The caller that runs the base has it in memory already.
        file.advise(info, Advice::DoneWith);
        Ok(Replacement { dtype, blocks })
    }

    /// Mean squared output errors of a tensor at several types, on sampled rows. For a stack, those of the
    /// first matrix with tokens. For a tensor without known inputs (token embeddings), mean squared errors of
    /// the rows.
    ///
    /// # Errors
    /// Those of [`Refiner::stock`]; Hessians that cannot be read.
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

    fn tensor(&self, name: &str) -> Result<(&gguf_container::File, &gguf_container::TensorInfo), Error> {
        let missing = || gguf_runtime::Error::MissingTensor { name: name.to_owned() };
        Ok(self.base.tensor(name).ok_or_else(missing)?)
    }

    /// Hessians of a matrix's inputs over the training tokens and over the held-out tokens. For an embedding
    /// that is also the output matrix, both uses count.
    fn moments_of(&self, tensor: &str, index: Option<usize>) -> Result<Option<(Gram, Gram)>, Error> {
        let mut grams = self.moments.gram(tensor, index)?;
        if let (EMBEDDING, Some((fit, held))) = (tensor, &mut grams) {
            fit.add_identity(EMBEDDING_SHARE);
            held.add_identity(EMBEDDING_SHARE);
        }
        Ok(grams)
    }

    /// The first matrix of a tensor that tokens reached, and its Hessians.
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

    /// Releases shared data of the last matrices, some hundreds of megabytes for wide ones. Later rows
    /// compute it again.
    pub fn release(&self) {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.shared.clear();
    }

    /// Results so far, by tensor and expert.
    pub fn outcomes(&self) -> Vec<Outcome> {
        let outcomes = self.outcomes.lock().unwrap_or_else(PoisonError::into_inner);
        outcomes.values().cloned().collect()
    }

    /// Time spent so far.
    pub fn spent(&self) -> Spent {
        let time = |counter: &AtomicU64| Duration::from_nanos(counter.load(Ordering::Relaxed));
        Spent { choosing: time(&self.choosing_ns), rounding: time(&self.rounding_ns) }
    }

    /// The slot of a matrix's shared data. The first thread fills it; others wait.
    fn prepared(&self, rows: &StockRows<'_>, expert: usize) -> Arc<Prepared> {
        let mut ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same =
            |slot: &Ready| slot.key.0 == rows.tensor && slot.key.1 == expert && slot.key.2 == rows.dtype;
        if let Some(found) = ready.iter().find(|slot| is_same(slot)) {
            return Arc::clone(&found.prepared);
        }
        // Jobs come in tensor order, so the oldest unused slot is unlikely to be needed again.
        while ready.len() >= KEPT
            && let Some(unused) = ready.iter().position(|slot| Arc::strong_count(&slot.prepared) == 1)
        {
            ready.remove(unused);
        }
        let prepared = Arc::new(OnceLock::new());
        let key = (rows.tensor.to_owned(), expert, rows.dtype);
        ready.push(Ready { key, prepared: Arc::clone(&prepared) });
        prepared
    }

    /// Chooses how to round a matrix from evenly spread rows, and computes its factor.
    fn prepare(
        &self,
        rows: &StockRows<'_>,
        expert: u64,
        rows_per_matrix: u64,
        n_columns: usize,
        input: &mut OfInput,
    ) -> Result<Option<Made>, Error> {
        let is_expert = self.base.tensor(rows.tensor).is_some_and(|(_, info)| info.shape.dim(2) > 1);
        let note = |result, held_out| {
            let (tensor, dtype) = (rows.tensor.to_owned(), rows.dtype);
            let outcome = Outcome {
                tensor,
                expert: expert as usize,
                is_expert,
                dtype,
                result,
                held_out,
                both_sides: false,
            };
            let mut outcomes = self.outcomes.lock().unwrap_or_else(PoisonError::into_inner);
            outcomes.insert((rows.tensor.to_owned(), expert as usize, dtype), outcome);
        };
        let grams = self.moments_of(rows.tensor, is_expert.then_some(expert as usize))?;
        // Matrices without statistics were reported when statistics were collected.
        let Some((fit, held)) = grams else { return Ok(None) };
        if fit.n_tokens() == 0 || held.n_tokens() == 0 {
            note(Err(Unrounded::NotReached), None);
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
        let chosen = input.choose(&fit, &held, rows.dtype, &values, &blocks, &self.candidates);
        match chosen {
            // Columns whose inputs are all zero do not affect the output.
            Err(Error::InputsAreZero) => {
                note(Err(Unrounded::NotReached), None);
                return Ok(None);
            }
            chosen => chosen.map_err(named),
        }
        .and_then(|chosen| match chosen {
            None => {
                let stock = output_error(&held, rows.dtype, &values, &blocks, n_columns).map_err(named)?;
                note(Err(Unrounded::NoBetter), Some((stock, stock)));
                Ok(None)
            }
            Some(Choice { options, stock_error, error }) => {
                note(Ok(options), Some((stock_error, error)));
                // Experts see few tokens each, and no gradients are collected for them.
                let outputs =
                    if is_expert { None } else { self.outputs_of(rows, rows_per_matrix, n_columns)? };
                if let Some((fit_outputs, held_outputs)) = outputs {
                    let sides = Sides { fit, held, fit_outputs, held_outputs };
                    let rounded = self.round_both(rows, &options, sides, input).map_err(named)?;
                    let (blocks, both) = match rounded {
                        Rounded::Both(blocks, both) => (blocks, both),
                        Rounded::Inputs(rounding) => return Ok(Some(Made::ByRows(rounding))),
                    };
                    let mut outcomes = self.outcomes.lock().unwrap_or_else(PoisonError::into_inner);
                    let key = (rows.tensor.to_owned(), expert as usize, rows.dtype);
                    if let Some(outcome) = outcomes.get_mut(&key) {
                        (outcome.result, outcome.both_sides) = (Ok(both), true);
                    }
                    return Ok(Some(Made::Whole(blocks)));
                }
                let rounding = input.over_all(fit, &held, &options, rows.dtype).map_err(named)?;
                Ok(Some(Made::ByRows(rounding)))
            }
        })
    }

    /// Encodes rows (n_rows, n_columns) of the matrix of `rows` with the codec.
    fn encode(&self, values: &[f32], n_columns: usize, rows: &StockRows<'_>) -> Result<Vec<u8>, Error> {
        let (block_elems, block_bytes) =
            (rows.dtype.block_elems() as usize, rows.dtype.block_bytes() as usize);
        let mut blocks = vec![0; values.len() / block_elems * block_bytes];
        let pieces = values.par_chunks((PIECE_ROWS * n_columns).max(1));
        let outs = blocks.par_chunks_mut((PIECE_ROWS * n_columns / block_elems * block_bytes).max(1));
        pieces.zip(outs).try_for_each(|(values, out)| {
            let to_encode = gguf_quant::Rows { values, row_elems: n_columns, weights: rows.weights };
            gguf_quant::encode(rows.dtype, rows.level, to_encode, out)
        })?;
        Ok(blocks)
    }

    /// Decoded rows of a tensor, counted over all matrices of a stack: (wanted, n_columns).
    fn decoded(
        &self,
        tensor: &str,
        source_rows: &[u64],
        n_columns: usize,
        level: Level,
    ) -> Result<Vec<f32>, Error> {
        let (file, info) = self.tensor(tensor)?;
        let bytes = file.data(info)?;
        let n_rows = info.shape.n_elems() / info.shape.row_elems().max(1);
        let row_bytes = bytes.len() / (n_rows as usize).max(1);
        let mut values = vec![0.0; source_rows.len() * n_columns];
        for (row, out) in source_rows.iter().zip(values.chunks_exact_mut(n_columns.max(1))) {
            let at = *row as usize * row_bytes;
            let stored = file.endian().to_little(info.dtype, &bytes[at..at + row_bytes]);
            gguf_quant::decode(info.dtype, level, &stored, out)?;
        }
        file.advise(info, Advice::DoneWith);
        Ok(values)
    }
}

/// Sampled rows of a matrix in a stack.
fn sampled(matrix: u64, rows_per_matrix: u64) -> Vec<u64> {
    let n_rows = rows_per_matrix.min(SAMPLE_ROWS);
    (0..n_rows).map(|index| matrix * rows_per_matrix + index * rows_per_matrix / n_rows).collect()
}

/// Importance weights of one matrix of a stack, or the only ones.
fn weights_of(all: &[f32], matrix: usize, n_columns: usize) -> &[f32] {
    let at = matrix % (all.len() / n_columns).max(1) * n_columns;
    &all[at..at + n_columns]
}

/// Sum of squared errors of `blocks` against `values`.
fn square_error(dtype: DType, level: Level, values: &[f32], blocks: &[u8]) -> Result<f64, Error> {
    let mut found = vec![0.0; values.len()];
    gguf_quant::decode(dtype, level, blocks, &mut found)?;
    let square = |(value, found): (&f32, &f32)| (f64::from(*value) - f64::from(*found)).powi(2);
    Ok(values.iter().zip(&found).map(square).sum())
}

fn add(counter: &AtomicU64, began: Instant) {
    counter.fetch_add(began.elapsed().as_nanos() as u64, Ordering::Relaxed);
}

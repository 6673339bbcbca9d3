//! Compares the tensors of a GGUF file with those that a source would produce.
//!
//! Every row of the source is read like in a conversion, encoded to the file's type and compared with the
//! file's bytes. Rows that differ (encoded with an importance matrix, or by another program) must be as near
//! to the source as an encoding without weights, within a factor.

use std::{
    collections::HashSet,
    sync::{Mutex, PoisonError},
};

use gguf_container::{Advice, File, Model, TensorInfo};
use gguf_quant::Rows;
use gguf_types::{DType, Shape};

use crate::{
    Error,
    job::{JOB_ELEMS, Job, RowsLeft, Schedule, TensorTask},
    losses::SquaredError,
    recipes::{CALIBRATION_KEY, TensorFacts},
    run::{Watch, for_each},
    run_options::RunOptions,
};

/// Agreement of a tensor in a file with the source.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Agreement {
    /// Every row is bit-exact or decodes to equal values.
    Equal,
    /// Every row is as expected, but the type loses far more of this tensor than usual.
    Lossy {
        /// The type in the file.
        dtype: DType,
        /// `|file - source| / |source|`, estimated from some of the rows.
        error: f64,
        /// Error of the type on normally distributed numbers.
        usual: f64,
    },
    /// Not bit-exact, but near enough.
    Near(Distance),
    /// Most rows are bit-exact, some are not.
    Damaged(Distance),
    /// Rows are further from the source than any encoding to their type would be.
    Differs(Distance),
    /// The file has another shape.
    Shape {
        /// Shape in the source.
        expected: Shape,
        /// Shape in the file.
        found: Shape,
    },
    /// Only in the source.
    Missing,
    /// Only in the file.
    Extra,
    /// The type of the file cannot be encoded or decoded.
    Unknown(DType),
}

/// Distance of a tensor's rows from the expected ones.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Distance {
    /// The type in the file.
    pub dtype: DType,
    /// Rows of the tensor.
    pub n_rows: u64,
    /// Rows that are not equal.
    pub n_different: u64,
    /// Row furthest from the source, from 0.
    pub worst_row: u64,
    /// `sqrt(sum (file - source)^2 / sum source^2)` for that row.
    pub worst_error: f64,
    /// This error for the entire tensor.
    pub error: f64,
    /// The error of the entire tensor if encoded without weights.
    pub own_error: f64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    n_different: u64,
    n_distant: u64,
    worst: Option<(u64, f64)>,
    /// Sums of squares: file - source, own encoding - source, source.
    file: f64,
    own: f64,
    source: f64,
    sampled: SquaredError,
}

/// Maximum factors, in squares, between the error of an encoding and that of one without weights.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    tensor: f64,
    row: f64,
    is_refined: bool,
}

/// Half as much again for a tensor, twice for a row, where chance weighs more. Importance matrices raise the
/// plain error of Q2_K to IQ3 by less than a third.
const ENCODED: Bounds = Bounds { tensor: 2.25, row: 4.0, is_refined: false };
/// Error feedback moves weights away from the source on purpose: three times the error for a tensor, six times for a row. (Trained
/// tiny models: up to 1.6 for a tensor, 3.5 for a row.)
const CALIBRATED: Bounds = Bounds { tensor: 9.0, row: 36.0, is_refined: true };
/// Limits for lossless types: an error of 1 % for a tensor, 5 % for a row. Rounding to bf16 on the way causes
/// at most 0.4 %.
const TENSOR_FLOOR: f64 = 1e-4;
const ROW_FLOOR: f64 = 2.5e-3;

impl Tally {
    fn add(&mut self, other: &Tally) {
        self.n_different += other.n_different;
        self.n_distant += other.n_distant;
        self.file += other.file;
        self.own += other.own;
        self.source += other.source;
        self.sampled.merge(other.sampled);
        // Of equally distant rows take the first, independent of thread order.
        self.worst = [self.worst, other.worst].into_iter().flatten().reduce(|a, b| {
            let b_is_worse = b.1 > a.1 || (b.1 == a.1 && b.0 < a.0);
            if b_is_worse { b } else { a }
        });
    }

    fn row(&mut self, bounds: Bounds, row: u64, [file, own, source]: [f64; 3]) {
        self.n_different += 1;
        // NaN is far from everything.
        let is_near = file <= bounds.row * own + ROW_FLOOR * source;
        self.n_distant += u64::from(!is_near);
        let error = relative(file, source);
        self.add(&Tally { file, own, source, worst: Some((row, error)), ..Tally::default() });
    }

    fn agreement(&self, bounds: Bounds, dtype: DType, n_rows: u64) -> Agreement {
        let Some((worst_row, worst_error)) = self.worst else {
            let far = self.sampled.far_above(dtype, bounds.is_refined);
            return far.map_or(Agreement::Equal, |(error, usual)| Agreement::Lossy { dtype, error, usual });
        };
        let distance = Distance {
            dtype,
            n_rows,
            n_different: self.n_different,
            worst_row,
            worst_error,
            error: relative(self.file, self.source),
            own_error: relative(self.own, self.source),
        };
        let is_near = self.file <= bounds.tensor * self.own + TENSOR_FLOOR * self.source;
        match () {
            () if self.n_distant > 0 || !is_near => Agreement::Differs(distance),
            // If an encoder reproduces most rows bit-exactly, it reproduces all.
            () if self.n_different * 2 < n_rows => Agreement::Damaged(distance),
            () => Agreement::Near(distance),
        }
    }
}

fn relative(difference: f64, source: f64) -> f64 {
    if difference == 0.0 { 0.0 } else { (difference / source).sqrt() }
}

/// Compares every tensor of `model` with those of a source: `tasks` and `facts` of an
/// [`Input`](crate::Input), in the same order. Returns each name with its agreement: first the tensors of the
/// source in their order, then those that only the file has.
///
/// # Errors
/// Errors of reading the source, [`Error::Cancelled`], [`Error::Gguf`] if the file changed in the meantime.
pub fn compare(
    tasks: &[TensorTask<'_>],
    facts: &[TensorFacts<'_>],
    model: &Model,
    options: &RunOptions,
    watch: Watch<'_>,
) -> Result<Vec<(String, Agreement)>, Error> {
    let schedule = Schedule::new(tasks, JOB_ELEMS);
    let bounds = if model.metadata().contains(CALIBRATION_KEY) { CALIBRATED } else { ENCODED };
    // Conclusions that need no row data.
    let known: Vec<Option<Agreement>> =
        tasks.iter().zip(facts).map(|(task, facts)| header_agreement(task, facts, model)).collect();
    let tallies: Vec<Mutex<Tally>> = tasks.iter().map(|_| Mutex::default()).collect();
    let left = RowsLeft::new(schedule.n_rows());
    for_each(schedule.len(), options.n_threads(&schedule), watch.cancel, |index, buffers| {
        let Some(job) = schedule.job(index) else { return Ok(()) };
        let task = &tasks[job.task];
        let Some((file, info)) = model.tensor(&task.name).filter(|_| known[job.task].is_none()) else {
            return Ok(());
        };
        let tally = compare_rows(task, &job, file, info, bounds, options, buffers)?;
        left.done_with(tasks, &job);
        tallies[job.task].lock().unwrap_or_else(PoisonError::into_inner).add(&tally);
        (watch.done)(&job, task.rows.input_bytes(job.rows.end - job.rows.start));
        Ok(())
    })?;
    watch.sources.iter().try_for_each(gguf_container::Mapped::check_unchanged)?;
    let compared = tasks.iter().zip(known).zip(tallies).map(|((task, known), tally)| {
        let tally = tally.into_inner().unwrap_or_else(PoisonError::into_inner);
        let dtype = model.tensor(&task.name).map_or(DType::F32, |(_, info)| info.dtype);
        let n_rows = task.rows.view().n_rows;
        (task.name.clone(), known.unwrap_or_else(|| tally.agreement(bounds, dtype, n_rows)))
    });
    // A set, because a file may have as many tensors as its source.
    let source_names: HashSet<&str> = tasks.iter().map(|task| task.name.as_str()).collect();
    let is_extra = |name: &String| !source_names.contains(name.as_str());
    let extra = model.tensors().map(|(_, info)| info.name.clone()).filter(is_extra);
    Ok(compared.chain(extra.map(|name| (name, Agreement::Extra))).collect())
}

/// Conclusion from names, shapes and types of a tensor.
fn header_agreement(task: &TensorTask<'_>, facts: &TensorFacts<'_>, model: &Model) -> Option<Agreement> {
    let Some((_, info)) = model.tensor(&task.name) else { return Some(Agreement::Missing) };
    // Some programs write trailing dimensions of 1, others do not.
    if !info.shape.matches(facts.shape.dims()) {
        return Some(Agreement::Shape { expected: facts.shape, found: info.shape });
    }
    // A vector whose elements move has rows of one element, shorter than any block.
    let fits = task.rows.view().row_elems.is_multiple_of(info.dtype.block_elems());
    let has_codec = gguf_quant::codec(info.dtype).is_some_and(|codec| codec.encode.is_some());
    (!fits || !has_codec).then_some(Agreement::Unknown(info.dtype))
}

#[derive(Default)]
struct Buffers {
    source: Vec<f32>,
    encoded: Vec<u8>,
    decoded: Vec<f32>,
    ones: Vec<f32>,
}

fn compare_rows(
    task: &TensorTask<'_>,
    job: &Job,
    file: &File,
    info: &TensorInfo,
    bounds: Bounds,
    options: &RunOptions,
    buffers: &mut Buffers,
) -> Result<Tally, Error> {
    let dtype = info.dtype;
    let row_elems = task.rows.view().row_elems as usize;
    let n_rows = (job.rows.end - job.rows.start) as usize;
    let row_bytes = row_elems / dtype.block_elems() as usize * dtype.block_bytes() as usize;
    let codec = |error| Error::Encode { tensor: task.name.clone(), error };
    // The header was checked: this range is inside the file.
    let start = file.range(info)?.start + job.rows.start as usize * row_bytes;
    let range = start..start + n_rows * row_bytes;
    let stored = file.endian().to_little(dtype, &file.bytes()[range.clone()]);

    let mut tally = Tally::default();
    let is_copied = task.rows.stored(dtype, job.rows.clone())?.is_some_and(|bytes| bytes == stored);
    if !is_copied {
        let Buffers { source, encoded, decoded, ones } = buffers;
        // (rows, row_elems) f32, like in a conversion before encoding.
        source.resize(n_rows * row_elems, 0.0);
        task.rows.read(job.rows.clone(), options.level, source)?;
        encoded.resize(n_rows * row_bytes, 0);
        ones.resize(row_elems.max(ones.len()), 1.0);
        let needs_weights = gguf_quant::codec(dtype).is_some_and(|codec| codec.needs_weights);
        let weights = needs_weights.then(|| &ones[..row_elems]);
        let rows = Rows { values: source, row_elems, weights };
        gguf_quant::encode(dtype, options.level, rows, encoded).map_err(codec)?;
        if encoded[..] == stored[..] {
            decoded.resize(row_elems.max(decoded.len()), 0.0);
            let first = &mut decoded[..row_elems];
            gguf_quant::decode(dtype, options.level, &stored[..row_bytes], first).map_err(codec)?;
            tally.sampled.add(first, &source[..row_elems]);
        } else {
            decoded.resize(2 * source.len(), 0.0);
            let (decoded_file, own) = decoded.split_at_mut(source.len());
            gguf_quant::decode(dtype, options.level, &stored, decoded_file).map_err(codec)?;
            gguf_quant::decode(dtype, options.level, encoded, own).map_err(codec)?;
            for row in 0..n_rows {
                let (bytes, elems) =
                    (row * row_bytes..(row + 1) * row_bytes, row * row_elems..(row + 1) * row_elems);
                let source = &source[elems.clone()];
                // Bits that decode to the very values are as good (blocks that keep codes of the source).
                if encoded[bytes.clone()] == stored[bytes] || decoded_file[elems.clone()] == *source {
                    continue;
                }
                let squares: f64 = source.iter().map(|x| f64::from(*x).powi(2)).sum();
                let distance = |values: &[f32]| -> f64 {
                    values.iter().zip(source).map(|(a, b)| (f64::from(*a) - f64::from(*b)).powi(2)).sum()
                };
                let distances = [distance(&decoded_file[elems.clone()]), distance(&own[elems]), squares];
                tally.row(bounds, job.rows.start + row as u64, distances);
            }
        }
    }
    file.bytes().advise(Advice::DoneWith, range);
    Ok(tally)
}

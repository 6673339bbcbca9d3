//! Bytes of a job: reads, checks and encodes rows.

use std::{borrow::Cow, ops::Range};

use gguf_container::{Endian, swap_blocks};
use gguf_quant::Rows;
use gguf_types::DType;

use crate::{
    Error, finite,
    job::{Job, Target, TensorTask, Weights},
    losses::{Losses, Noted, SquaredError, is_nonzero_by_nature},
    row_encoder::EncodedRows,
    run_options::{NonFinite, RunOptions},
};

#[derive(Debug, Default)]
pub(crate) struct Buffers {
    /// (rows, row_elems) f32.
    values: Vec<f32>,
    encoded: Vec<u8>,
    /// True if `values` had a nonzero element before they were rounded to an intermediate type.
    has_value: bool,
    /// At least one row of ones, for targets that take them as weights.
    ones: Vec<f32>,
}

pub(crate) struct JobBytes<'a> {
    task: &'a TensorTask<'a>,
    job: &'a Job,
    options: &'a RunOptions,
    buffers: &'a mut Buffers,
    values_are_read: bool,
}

/// Data of a job for one target.
pub(crate) struct Made<'a> {
    /// Complete rows, in the byte order of the target.
    pub(crate) bytes: Cow<'a, [u8]>,
    /// True if recomputing is about as fast as reading back: no download and no search for scales.
    pub(crate) is_cheap: bool,
}

impl<'a> JobBytes<'a> {
    pub(crate) fn new(
        task: &'a TensorTask<'a>,
        job: &'a Job,
        options: &'a RunOptions,
        buffers: &'a mut Buffers,
    ) -> JobBytes<'a> {
        JobBytes { task, job, options, buffers, values_are_read: false }
    }

    /// Data for `target`, one of the task's targets.
    ///
    /// # Errors
    /// Read errors, non-finite values if refused, [`Error::Encode`].
    pub(crate) fn of(&mut self, target: &Target<'_>) -> Result<Made<'_>, Error> {
        let stored = stored(self.task, self.job, target.dtype)?;
        let is_searched = || {
            let codec = gguf_quant::codec(target.dtype);
            // Improving blocks takes longer than any search for scales.
            let is_refined = self.task.encoder_of(target.dtype).is_some();
            is_refined || codec.is_some_and(|codec| codec.search.is_made(target.weights.is_some()))
        };
        let is_cheap = !self.task.rows.is_fetched() && (stored.is_some() || !is_searched());
        // Blocks must be decoded to find non-finite values. Values to encode are needed anyway.
        let checks_blocks = target.dtype.is_quantized() && self.options.nonfinite == NonFinite::Refuse;
        // Targets of one tensor share the values: reading is half of the work of the fast formats.
        if (stored.is_none() || checks_blocks) && !std::mem::replace(&mut self.values_are_read, true) {
            self.buffers.has_value = read(self.task, self.job, self.options, &mut self.buffers.values)?;
        }
        let is_stored = stored.is_some();
        let mut bytes = match stored {
            Some(bytes) => bytes,
            None => {
                encode(self.task, self.job, target, self.options, self.buffers)?;
                Cow::Borrowed(&self.buffers.encoded[..])
            }
        };
        if let Some(losses) = &self.options.losses {
            self.note(losses, target, &bytes, is_stored);
        }
        // All data is little endian up to here.
        if target.endian == Endian::Big {
            swap_blocks(target.dtype, bytes.to_mut());
        }
        Ok(Made { bytes, is_cheap })
    }
}

impl JobBytes<'_> {
    /// Records whether the rows and their blocks have a nonzero value, and the error of some rows.
    fn note(&self, losses: &Losses, target: &Target<'_>, bytes: &[u8], is_stored: bool) {
        let view = self.task.rows.view();
        let n_dims = if view.n_rows > 1 { 2 } else { 1 };
        if !is_nonzero_by_nature(&self.task.name, n_dims) {
            return;
        }
        let n_rows = self.job.rows.end - self.job.rows.start;
        let (row_elems, row_bytes) = (view.row_elems as usize, bytes.len() / n_rows.max(1) as usize);
        let has_encoded = || has_value(target.dtype, bytes, row_elems, row_bytes, self.options);
        // Copied blocks are both source and output.
        let has_source = || if is_stored { has_encoded() } else { self.buffers.has_value };
        let error = if is_stored {
            SquaredError::default()
        } else {
            sampled_error(target.dtype, bytes, &self.buffers.values, row_elems, row_bytes, self.options)
        };
        let noted = Noted {
            name: &self.task.name,
            dtype: target.dtype,
            n_rows: view.n_rows,
            n_now: n_rows,
            error,
            is_refined: self.task.encoder_of(target.dtype).is_some(),
        };
        losses.note((self.job.task, target.output), noted, has_source, has_encoded);
    }
}

/// Number of rows per job whose error is measured.
const SAMPLED_ROWS: usize = 4;

/// Error of some rows of a job, which are decoded for it. `None` if the type cannot be decoded.
fn sampled_error(
    dtype: DType,
    bytes: &[u8],
    values: &[f32],
    row_elems: usize,
    row_bytes: usize,
    options: &RunOptions,
) -> SquaredError {
    let (mut error, mut decoded) = (SquaredError::default(), vec![0.0; row_elems]);
    let rows = bytes.chunks_exact(row_bytes.max(1)).zip(values.chunks_exact(row_elems.max(1)));
    let step = (rows.len() / SAMPLED_ROWS).max(1);
    for (row, source) in rows.step_by(step) {
        if gguf_quant::decode(dtype, options.level, row, &mut decoded).is_ok() {
            error.add(&decoded, source);
        }
    }
    error
}

/// True if blocks contain a nonzero value. Blocks of types that cannot be decoded count as nonzero.
fn has_value(dtype: DType, bytes: &[u8], row_elems: usize, row_bytes: usize, options: &RunOptions) -> bool {
    let mut values = vec![0.0; row_elems];
    // Usually the first row has a nonzero value, so few rows are decoded.
    bytes.chunks_exact(row_bytes.max(1)).any(|row| {
        gguf_quant::decode(dtype, options.level, row, &mut values).is_err()
            || values.iter().any(|value| *value != 0.0)
    })
}

/// Stored bytes of a job, if a target of this type can use them.
fn stored<'a>(task: &'a TensorTask<'_>, job: &Job, dtype: DType) -> Result<Option<Cow<'a, [u8]>>, Error> {
    // Rounded values differ from the stored ones, unless they are rounded to the target's type.
    if task.via.is_some_and(|via| via != dtype) {
        return Ok(None);
    }
    let Some(bytes) = task.rows.stored(dtype, job.rows.clone())? else { return Ok(None) };
    // A non-finite float takes the slow path: it is reported there, or written with the bits that the
    // reference gives to NaNs.
    let is_bad = finite::scan_raw(dtype, &bytes).is_some_and(|scan| scan.first_bad.is_some());
    Ok(Some(bytes).filter(|_| !is_bad))
}

/// Reads the rows of a job into `values`, (rows, row_elems) f32, rounded to the intermediate type if there is one. Returns true if a
/// value was nonzero before rounding.
fn read(
    task: &TensorTask<'_>,
    job: &Job,
    options: &RunOptions,
    values: &mut Vec<f32>,
) -> Result<bool, Error> {
    let n_elems = (job.rows.end - job.rows.start) * task.rows.view().row_elems;
    // The old contents are overwritten.
    values.resize(n_elems as usize, 0.0);
    task.rows.read(job.rows.clone(), options.level, values)?;
    // Before rounding, which can create infinities; those are reported as overflow after encoding.
    if options.nonfinite == NonFinite::Refuse
        && let Some(index) = finite::scan(values).first_bad
    {
        let (row, column) = place(task, job, index);
        return Err(Error::NonFinite { tensor: task.name.clone(), row, column, value: values[index] });
    }
    let has_value = values.iter().any(|value| *value != 0.0);
    if let Some(via) = task.via {
        let codec = |error| Error::Encode { tensor: task.name.clone(), error };
        let row_elems = task.rows.view().row_elems as usize;
        // Intermediate types are floats, whose blocks are single elements.
        let mut rounded = vec![0; values.len() * via.block_bytes() as usize];
        let rows = Rows { values, row_elems, weights: None };
        gguf_quant::encode(via, options.level, rows, &mut rounded).map_err(codec)?;
        gguf_quant::decode(via, options.level, &rounded, values).map_err(codec)?;
    }
    Ok(has_value)
}

fn encode(
    task: &TensorTask<'_>,
    job: &Job,
    target: &Target<'_>,
    options: &RunOptions,
    buffers: &mut Buffers,
) -> Result<(), Error> {
    let Buffers { values, encoded, ones, .. } = buffers;
    let codec = |error| Error::Encode { tensor: task.name.clone(), error };
    let row_elems = task.rows.view().row_elems as usize;
    let row_bytes = row_bytes(task, target.dtype)?;
    let n_rows = job.rows.end - job.rows.start;
    // If the length is unchanged, no bytes are cleared; all are overwritten below.
    encoded.resize((n_rows * row_bytes) as usize, 0);
    if target.weights == Some(Weights::Ones) && ones.len() < row_elems {
        ones.resize(row_elems, 1.0);
    }
    // A call of the codec takes one row of weights for all rows.
    for rows in ranges_of_equal_weights(job, target.weights) {
        let first = (rows.start - job.rows.start) as usize;
        let end = (rows.end - job.rows.start) as usize;
        let weights = target.weights.map(|weights| match weights {
            Weights::Ones => &ones[..row_elems],
            Weights::Rows { values, rows_per_expert } => {
                // A stack of stacks has more matrices than rows of weights, which repeat.
                let n_experts = (values.len() / row_elems.max(1)).max(1);
                let expert = (rows.start / rows_per_expert) as usize % n_experts;
                &values[expert * row_elems..(expert + 1) * row_elems]
            }
        });
        let values = &values[first * row_elems..end * row_elems];
        let out = &mut encoded[first * row_bytes as usize..end * row_bytes as usize];
        // The codec runs first: a row encoder starts from its scales.
        let codec_rows = Rows { values, row_elems, weights };
        gguf_quant::encode(target.dtype, options.level, codec_rows, out).map_err(codec)?;
        if let Some(encoder) = task.encoder_of(target.dtype) {
            let (tensor, dtype, level) = (task.name.as_str(), target.dtype, options.level);
            let rows = EncodedRows { tensor, dtype, rows, row_elems, values, weights, level };
            let failed = |problem| Error::RowEncoder { tensor: task.name.clone(), problem };
            encoder.encode(&rows, out).map_err(failed)?;
        }
    }
    // Decoding costs time, and only large values can overflow a scale, which few tensors have.
    if options.nonfinite == NonFinite::Refuse
        && target.dtype != DType::F32
        && finite::scan(values).max_abs > finite::SAFE_MAGNITUDE
    {
        let mut decoded = vec![0.0; values.len()];
        gguf_quant::decode(target.dtype, options.level, encoded, &mut decoded).map_err(codec)?;
        if let Some(index) = lost(values, &decoded, target.dtype) {
            let (row, column) = place(task, job, index);
            let (tensor, value, dtype) = (task.name.clone(), values[index], target.dtype);
            return Err(Error::Overflow { tensor, row, column, value, dtype });
        }
    }
    Ok(())
}

/// Index of the largest element of the first block that cannot represent it: the decoded block is not finite,
/// or the decoded element is less than a quarter of its value.
fn lost(values: &[f32], decoded: &[f32], dtype: DType) -> Option<usize> {
    let block_elems = dtype.block_elems() as usize;
    let largest = |block: &[f32]| {
        let magnitudes = block.iter().map(|value| value.abs()).enumerate();
        magnitudes.max_by(|a, b| a.1.total_cmp(&b.1)).map_or(0, |(at, _)| at)
    };
    let blocks = values.chunks(block_elems).zip(decoded.chunks(block_elems)).enumerate();
    blocks.map(|(block, (values, decoded))| (block, values, decoded)).find_map(|(block, values, decoded)| {
        let at = largest(values);
        let is_large = values[at].abs() > finite::SAFE_MAGNITUDE;
        let is_lost = decoded[at].abs() < values[at].abs() / 4.0;
        let is_bad = decoded.iter().any(|value| !value.is_finite());
        (is_large && (is_lost || is_bad)).then_some(block * block_elems + at)
    })
}

/// Rows of the job, cut between experts because the weights change there.
fn ranges_of_equal_weights(job: &Job, weights: Option<Weights<'_>>) -> Vec<Range<u64>> {
    // Weights of ones are the same for every row.
    let Some(Weights::Rows { rows_per_expert, .. }) = weights else { return vec![job.rows.clone()] };
    let mut ranges = Vec::new();
    let mut start = job.rows.start;
    while start < job.rows.end {
        let end = (start / rows_per_expert + 1) * rows_per_expert;
        ranges.push(start..end.min(job.rows.end));
        start = end;
    }
    ranges
}

/// Bytes of one row, as counted by the task.
pub(crate) fn row_bytes(task: &TensorTask<'_>, dtype: DType) -> Result<u64, Error> {
    let row_elems = task.rows.view().row_elems;
    let partial = |source| Error::Gguf(gguf_container::Error::Shape { tensor: task.name.clone(), source });
    gguf_types::Shape::new(&[row_elems]).and_then(|row| row.row_bytes(dtype)).map_err(partial)
}

/// Row and column of an element of a job, in the order of the output.
fn place(task: &TensorTask<'_>, job: &Job, index: usize) -> (u64, u64) {
    let view = task.rows.view();
    let at = job.rows.start * view.row_elems + index as u64;
    // A vector whose elements move has rows of one element; users see one row.
    if view.row_elems == 1 { (0, at) } else { (at / view.row_elems, at % view.row_elems) }
}

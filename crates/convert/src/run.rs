//! Runs the jobs: read, to f32, encode, write at own offset.
//!
//! Threads take jobs from one counter over all tensors, so none waits for a tensor to end. What
//! a job writes depends on its rows alone, so neither the number of threads nor their order can
//! change a byte. A thread owns its buffers; together they are all the memory of a run.
//!
//! One more thread waits for the disk all along: a file of 2.3 GB that is synced only at its end
//! keeps every core idle for 0.9 s.

use std::{
    num::NonZeroUsize,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
        mpsc,
    },
    thread,
};

use gguf::{Advice, Output};
use quant::{Level, Rows};
use tensor::DType;

use crate::{Error, Job, Schedule, Target, Weights, Work, finite};

/// How a run goes about it.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// Number of threads; none means one for each core.
    pub threads: Option<NonZeroUsize>,
    /// The CPU level of the kernels.
    pub level: Level,
    /// What happens to values that are not finite.
    pub nonfinite: NonFinite,
}

impl Default for RunOptions {
    fn default() -> RunOptions {
        RunOptions { threads: None, level: Level::detect(), nonfinite: NonFinite::Refuse }
    }
}

/// What happens to NaNs and infinities in the weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NonFinite {
    /// An error that names the first one. What `llama-quantize` does
    /// (`ggml_validate_row_data` of input and result).
    Refuse,
    /// They are converted like any other value. What the reference's converter does.
    Allow,
}

/// What a run tells while it goes, and how it is stopped.
#[derive(Clone, Copy)]
pub struct Watch<'a> {
    /// Set from anywhere to stop the run; jobs that have begun are finished.
    pub cancel: &'a AtomicBool,
    /// Called by any thread after each job, with the bytes of input that it covered.
    pub done: &'a (dyn Fn(&Job, u64) + Sync),
    /// The files that are read. They are looked at again after the last job, so that a file that changed
    /// meanwhile is an error and not half of an output.
    pub sources: &'a [gguf::Mapped],
}

impl std::fmt::Debug for Watch<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").field("cancel", self.cancel).finish_non_exhaustive()
    }
}

/// What one thread reuses from job to job.
#[derive(Default)]
struct Buffers {
    /// (rows, row_elems) f32.
    values: Vec<f32>,
    /// Encoded blocks of one target.
    encoded: Vec<u8>,
}

/// Bytes after which what is written goes to the disk.
const SYNC_EVERY_BYTES: u64 = 128 << 20;

/// Tells the thread that syncs which outputs have grown.
struct Progress<'a> {
    /// Bytes written since the last sync, for each output.
    unsynced_bytes: &'a [AtomicU64],
    /// Takes the indices of outputs; has room for one, as whoever writes must not wait.
    grown: mpsc::SyncSender<usize>,
}

impl Progress<'_> {
    fn wrote(&self, output: usize, bytes: u64) {
        let unsynced = self.unsynced_bytes[output].fetch_add(bytes, Ordering::Relaxed) + bytes;
        if unsynced >= SYNC_EVERY_BYTES && self.grown.try_send(output).is_ok() {
            self.unsynced_bytes[output].store(0, Ordering::Relaxed);
        }
    }
}

/// Runs every job of `schedule` over `works` and writes to `outputs`.
///
/// # Errors
/// The error of the first job in order that failed, whatever the number of threads, or
/// [`Error::Cancelled`].
pub fn run(
    works: &[Work<'_>],
    schedule: &Schedule,
    outputs: &[Output],
    options: &RunOptions,
    watch: Watch<'_>,
) -> Result<(), Error> {
    let threads = options.threads.or_else(|| thread::available_parallelism().ok());
    let n_threads = threads.map_or(1, NonZeroUsize::get).min(schedule.len()).max(1);
    let next = AtomicUsize::new(0);
    let failed: Mutex<Option<(usize, Error)>> = Mutex::new(None);
    let stop = AtomicBool::new(false);
    let unsynced_bytes: Vec<AtomicU64> = outputs.iter().map(|_| AtomicU64::new(0)).collect();
    let fail = |index: usize, error: Error| {
        // Jobs are handed out in order, so every earlier one has begun and will have its say;
        // the earliest error wins.
        let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
        if failed.as_ref().is_none_or(|(earliest, _)| index < *earliest) {
            *failed = Some((index, error));
        }
        stop.store(true, Ordering::Relaxed);
    };
    let work_through = |progress: Progress<'_>| {
        let mut buffers = Buffers::default();
        while !stop.load(Ordering::Relaxed) && !watch.cancel.load(Ordering::Relaxed) {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = schedule.job(index) else { break };
            match run_job(&works[job.work], &job, outputs, options, &progress, &mut buffers) {
                Ok(input_bytes) => (watch.done)(&job, input_bytes),
                Err(error) => fail(index, error),
            }
        }
    };
    thread::scope(|scope| {
        let (grown, to_sync) = mpsc::sync_channel(1);
        let progress = || Progress { unsynced_bytes: &unsynced_bytes, grown: grown.clone() };
        scope.spawn(|| {
            // Ends when the last thread that writes has dropped its sender.
            for output in to_sync {
                if let Err(error) = outputs[output].sync_so_far() {
                    fail(usize::MAX, error.into());
                }
            }
        });
        for _ in 1..n_threads {
            let progress = progress();
            scope.spawn(|| work_through(progress));
        }
        work_through(progress());
        drop(grown);
    });
    let result = match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some((_, error)) => Err(error),
        None if watch.cancel.load(Ordering::Relaxed) => return Err(Error::Cancelled),
        None => Ok(()),
    };
    // Before the result: a write of bytes that are gone fails too, and its error is about the output.
    watch.sources.iter().try_for_each(gguf::Mapped::check_unchanged)?;
    result
}

/// Reads the rows once, encodes them for each target and writes them. Gives the bytes of input.
fn run_job(
    work: &Work<'_>,
    job: &Job,
    outputs: &[Output],
    options: &RunOptions,
    progress: &Progress<'_>,
    buffers: &mut Buffers,
) -> Result<u64, Error> {
    let mut values_are_read = false;
    for target in &work.targets {
        if let Some(bytes) = copy(work, job, target, outputs, options)? {
            progress.wrote(target.output, bytes);
            continue;
        }
        if !values_are_read {
            read(work, job, options, &mut buffers.values)?;
            values_are_read = true;
        }
        let offset = encode(work, job, target, options, buffers)?;
        outputs[target.output].write_at(offset, &buffers.encoded)?;
        progress.wrote(target.output, buffers.encoded.len() as u64);
    }
    work.rows.advise(job.rows.clone(), Advice::DoneWith);
    Ok(work.rows.input_bytes(job.rows.end - job.rows.start))
}

/// Copies stored bytes where they are what the target wants; gives their number. None where they
/// are not.
fn copy(
    work: &Work<'_>,
    job: &Job,
    target: &Target,
    outputs: &[Output],
    options: &RunOptions,
) -> Result<Option<u64>, Error> {
    let is_plain = work.via.is_none_or(|via| via == target.dtype);
    if !is_plain || work.rows.raw_dtype() != Some(target.dtype) {
        return Ok(None);
    }
    let bytes = work.rows.raw(job.rows.clone())?;
    // A float that is not finite goes the long way: there it is named, or written with the bits
    // that the reference gives to NaNs.
    if let Some(scan) = finite::scan_raw(target.dtype, &bytes)
        && scan.first_bad.is_some()
    {
        return Ok(None);
    }
    if target.dtype.is_quantized() && options.nonfinite == NonFinite::Refuse {
        let row_elems = work.rows.view().row_elems;
        let mut values = vec![0.0; ((job.rows.end - job.rows.start) * row_elems) as usize];
        work.rows.read(job.rows.clone(), options.level, &mut values)?;
        refuse_nonfinite(work, job, &values, &values)?;
    }
    let offset = target.offset + job.rows.start * row_bytes(work, target.dtype)?;
    outputs[target.output].write_at(offset, &bytes)?;
    Ok(Some(bytes.len() as u64))
}

fn read(work: &Work<'_>, job: &Job, options: &RunOptions, values: &mut Vec<f32>) -> Result<(), Error> {
    let n_elems = (job.rows.end - job.rows.start) * work.rows.view().row_elems;
    values.resize(n_elems as usize, 0.0);
    work.rows.read(job.rows.clone(), options.level, values)?;
    if options.nonfinite == NonFinite::Refuse && finite::scan(values).first_bad.is_some() {
        refuse_nonfinite(work, job, values, values)?;
    }
    if let Some(via) = work.via {
        let codec = |error| Error::Encode { tensor: work.name.clone(), error };
        let row_elems = work.rows.view().row_elems as usize;
        let mut rounded = vec![0; values.len() * via.block_bytes() as usize];
        let rows = Rows { values, row_elems, weights: None };
        quant::encode(via, options.level, rows, &mut rounded).map_err(codec)?;
        quant::decode(via, options.level, &rounded, values).map_err(codec)?;
    }
    Ok(())
}

/// Encodes `buffers.values` into `buffers.encoded`; gives the offset to write it at.
fn encode(
    work: &Work<'_>,
    job: &Job,
    target: &Target,
    options: &RunOptions,
    buffers: &mut Buffers,
) -> Result<u64, Error> {
    let Buffers { values, encoded } = buffers;
    let codec = |error| Error::Encode { tensor: work.name.clone(), error };
    let row_elems = work.rows.view().row_elems as usize;
    let row_bytes = row_bytes(work, target.dtype)?;
    let n_rows = job.rows.end - job.rows.start;
    // Same length means that nothing is cleared; every byte is written below.
    encoded.resize((n_rows * row_bytes) as usize, 0);
    let weights = work.weights.or_else(|| work.stand_in.filter(|_| target.needs_weights));
    let weights = weights.filter(|_| target.dtype.is_quantized());
    for rows in expert_ranges(job, weights) {
        let first = (rows.start - job.rows.start) as usize;
        let end = (rows.end - job.rows.start) as usize;
        let of_expert = weights.map(|weights| {
            // A stack of stacks repeats its weights.
            let n_experts = (weights.values.len() / row_elems.max(1)).max(1);
            let expert = (rows.start / weights.rows_per_expert) as usize % n_experts;
            &weights.values[expert * row_elems..(expert + 1) * row_elems]
        });
        let rows =
            Rows { values: &values[first * row_elems..end * row_elems], row_elems, weights: of_expert };
        let out = &mut encoded[first * row_bytes as usize..end * row_bytes as usize];
        quant::encode(target.dtype, options.level, rows, out).map_err(codec)?;
    }
    if options.nonfinite == NonFinite::Refuse
        && target.dtype != DType::F32
        && finite::scan(values).max_abs > finite::SAFE_MAGNITUDE
    {
        let mut decoded = vec![0.0; values.len()];
        quant::decode(target.dtype, options.level, encoded, &mut decoded).map_err(codec)?;
        if let Some(index) = finite::scan(&decoded).first_bad {
            let (row, column) = place(work, job, index);
            let (tensor, value, dtype) = (work.name.clone(), values[index], target.dtype);
            return Err(Error::Overflow { tensor, row, column, value, dtype });
        }
    }
    Ok(target.offset + job.rows.start * row_bytes)
}

/// The rows of a job, cut where an expert ends.
fn expert_ranges(job: &Job, weights: Option<Weights<'_>>) -> Vec<std::ops::Range<u64>> {
    let Some(weights) = weights else { return vec![job.rows.clone()] };
    let mut ranges = Vec::new();
    let mut start = job.rows.start;
    while start < job.rows.end {
        let end = (start / weights.rows_per_expert + 1) * weights.rows_per_expert;
        ranges.push(start..end.min(job.rows.end));
        start = end;
    }
    ranges
}

/// Bytes of one row, as the rows of the work count them.
fn row_bytes(work: &Work<'_>, dtype: DType) -> Result<u64, Error> {
    let row_elems = work.rows.view().row_elems;
    let partial = |source| Error::Gguf(gguf::Error::Shape { tensor: work.name.clone(), source });
    tensor::Shape::new(&[row_elems]).and_then(|row| row.row_bytes(dtype)).map_err(partial)
}

/// Row and column of an element of a job, in the order of the output.
fn place(work: &Work<'_>, job: &Job, index: usize) -> (u64, u64) {
    let view = work.rows.view();
    let at = job.rows.start * view.row_elems + index as u64;
    // A vector whose elements move has rows of one element; people see one row.
    if view.row_elems == 1 { (0, at) } else { (at / view.row_elems, at % view.row_elems) }
}

fn refuse_nonfinite(work: &Work<'_>, job: &Job, values: &[f32], shown: &[f32]) -> Result<(), Error> {
    match finite::scan(values).first_bad {
        None => Ok(()),
        Some(index) => {
            let (row, column) = place(work, job, index);
            Err(Error::NonFinite { tensor: work.name.clone(), row, column, value: shown[index] })
        }
    }
}

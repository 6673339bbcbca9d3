//! Runs the jobs: read, to f32, encode, write at own offset.
//!
//! Threads take jobs from one counter over all tensors, so none waits for a tensor to end. What
//! a job writes depends on its rows alone, so neither the number of threads nor their order can
//! change a byte. A thread owns its buffers; together they are all the memory of a run.
//!
//! One more thread waits for the disk all along: a file of 2.3 GB that is synced only at its end
//! keeps every core idle for 0.9 s.

use std::{
    borrow::Cow,
    num::NonZeroUsize,
    ops::Range,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};

use gguf::{Endian, Output, swap_blocks};
use quant::{Level, Rows};
use tensor::DType;

use crate::{
    Error,
    ahead::Ahead,
    finite,
    job::{Job, Schedule, Target, TensorTask, Weights},
    journal::{Journal, Span},
};

/// How a run goes about it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RunOptions {
    /// Number of threads; none means one for each core.
    pub threads: Option<NonZeroUsize>,
    /// The CPU level of the kernels.
    pub level: Level,
    /// What happens to values that are not finite.
    pub nonfinite: NonFinite,
}

impl RunOptions {
    /// The same with so many threads, where there is a number.
    pub fn threads(self, threads: Option<NonZeroUsize>) -> RunOptions {
        RunOptions { threads, ..self }
    }

    /// The same at a CPU level.
    pub fn level(self, level: Level) -> RunOptions {
        RunOptions { level, ..self }
    }

    /// How many threads work on a schedule.
    pub(crate) fn n_threads(&self, schedule: &Schedule) -> usize {
        let threads = self.threads.or_else(|| thread::available_parallelism().ok());
        // More threads than jobs would only wait.
        threads.map_or(1, NonZeroUsize::get).min(schedule.len()).max(1)
    }

    /// The same with another way with values that are not finite.
    pub fn nonfinite(self, nonfinite: NonFinite) -> RunOptions {
        RunOptions { nonfinite, ..self }
    }
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

/// How a run reports on its way, and how it is stopped.
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
    /// At least a row of ones, for targets that take them for weights.
    ones: Vec<f32>,
}

/// Bytes after which what is written goes to the disk: a second or less of most disks, so that little is left to wait
/// for at the end, and few enough syncs that none is felt.
const SYNC_EVERY_BYTES: u64 = 128 << 20;

/// Where there is a journal, what was done is synced and noted after a tenth of the time that the run took so far, within these
/// limits: a crash costs a tenth of a short run, and seconds of a long one.
const NOTE_EVERY: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(5)];

/// What the thread that syncs learns of how outputs grow.
struct Progress<'a> {
    /// Bytes written since the last sync, for each output.
    unsynced_bytes: &'a [AtomicU64],
    /// Wakes it; has room for one word, as whoever writes must not wait.
    grown: mpsc::SyncSender<()>,
}

impl Progress<'_> {
    fn wrote(&self, output: usize, bytes: u64) {
        let unsynced = self.unsynced_bytes[output].fetch_add(bytes, Ordering::Relaxed) + bytes;
        if unsynced >= SYNC_EVERY_BYTES {
            // Where a word is waiting already, it is this one too.
            let _is_awake = self.grown.try_send(());
        }
    }
}

/// Runs every job of `schedule` over `tasks` and writes to `outputs`.
///
/// # Errors
/// The error of the first job in order that failed, whatever the number of threads, or
/// [`Error::Cancelled`].
pub fn run(
    tasks: &[TensorTask<'_>],
    schedule: &Schedule,
    outputs: &[Output],
    options: &RunOptions,
    watch: Watch<'_>,
) -> Result<(), Error> {
    run_with(tasks, schedule, outputs, None, options, watch)
}

/// As [`run`], and notes in a journal which rows are in all outputs.
///
/// # Errors
/// As [`run`].
pub fn run_with(
    tasks: &[TensorTask<'_>],
    schedule: &Schedule,
    outputs: &[Output],
    journal: Option<&Journal<'_>>,
    options: &RunOptions,
    watch: Watch<'_>,
) -> Result<(), Error> {
    let n_threads = options.n_threads(schedule);
    // The next job that nobody has taken. Jobs are in the order of the checkpoint, so that the disk is read from
    // front to back by all threads together.
    let next = AtomicUsize::new(0);
    let failed: Mutex<Option<(usize, Error)>> = Mutex::new(None);
    let stop = AtomicBool::new(false);
    let unsynced_bytes: Vec<AtomicU64> = outputs.iter().map(|_| AtomicU64::new(0)).collect();
    let fail = |index: usize, error: Error| {
        // Jobs are handed out in order, and one that has begun runs to its end: every job before this one has
        // reported or will. So the earliest error wins, as with one thread.
        let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
        if failed.as_ref().is_none_or(|(earliest, _)| index < *earliest) {
            *failed = Some((index, error));
        }
        stop.store(true, Ordering::Relaxed);
    };
    let ahead = Ahead::new(tasks, schedule);
    let take_jobs = |progress: Progress<'_>| {
        let (mut buffers, mut spans) = (Buffers::default(), Vec::new());
        while !stop.load(Ordering::Relaxed) && !watch.cancel.load(Ordering::Relaxed) {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = schedule.job(index) else { break };
            if let Some(ahead) = &ahead {
                ahead.taken(index);
            }
            let noted = journal.is_some().then_some(&mut spans);
            match run_job(&tasks[job.task], &job, outputs, options, &progress, &mut buffers, noted) {
                Ok(input_bytes) => {
                    if let Some(journal) = journal {
                        journal.wrote(job.task, job.rows.clone(), std::mem::take(&mut spans));
                    }
                    if let Some(ahead) = &ahead {
                        ahead.done(input_bytes);
                    }
                    (watch.done)(&job, input_bytes);
                }
                Err(error) => fail(index, error),
            }
        }
    };
    thread::scope(|scope| {
        let (grown, to_sync) = mpsc::sync_channel(1);
        let progress = || Progress { unsynced_bytes: &unsynced_bytes, grown: grown.clone() };
        scope.spawn(|| {
            let (began, to_sync) = (Instant::now(), to_sync);
            let sync = || sync_grown(outputs, &unsynced_bytes);
            let mut noted = began;
            loop {
                let due = noted + (began.elapsed() / 10).clamp(NOTE_EVERY[0], NOTE_EVERY[1]);
                let word = match journal {
                    Some(_) => to_sync.recv_timeout(due.saturating_duration_since(Instant::now())),
                    None => to_sync.recv().map_err(|_| RecvTimeoutError::Disconnected),
                };
                // The last thread that writes has dropped its sender.
                if word == Err(RecvTimeoutError::Disconnected) {
                    return;
                }
                // Much that was written goes to the disk at once; that it is there can be noted later.
                let result = match journal.filter(|_| Instant::now() >= due) {
                    Some(journal) => {
                        noted = Instant::now();
                        journal.checkpoint(Some(&sync))
                    }
                    None => sync(),
                };
                if let Err(error) = result {
                    // The error of any job comes before one of the disk.
                    fail(usize::MAX, error);
                }
            }
        });
        for _ in 1..n_threads {
            let progress = progress();
            scope.spawn(|| take_jobs(progress));
        }
        // This thread is one of them. Its sender goes with the call, the one that others were cloned of after it:
        // the scope ends when the thread that syncs does.
        take_jobs(progress());
        drop(grown);
    });
    let result = match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        // The same word, from somebody who waited for bytes.
        Some((_, Error::Read(source::ReadError::Interrupted))) => return Err(Error::Cancelled),
        // An error that is known is worth more than the word that somebody has stopped the run.
        Some((_, error)) => Err(error),
        None if watch.cancel.load(Ordering::Relaxed) => return Err(Error::Cancelled),
        None => Ok(()),
    };
    // Before the result: a write of bytes that are gone fails too, and its error is about the output.
    watch.sources.iter().try_for_each(gguf::Mapped::check_unchanged)?;
    result
}

/// Hands to the disk what was written since the last time.
fn sync_grown(outputs: &[Output], unsynced_bytes: &[AtomicU64]) -> Result<(), Error> {
    let grown = outputs.iter().zip(unsynced_bytes).filter(|(_, bytes)| bytes.swap(0, Ordering::Relaxed) > 0);
    grown.into_iter().try_for_each(|(output, _)| Ok(output.sync_so_far()?))
}

/// Reads the rows once, encodes them for each target and writes them. Gives the bytes of input, and in `spans`, where that is
/// wanted, the checksums of what it wrote.
fn run_job(
    task: &TensorTask<'_>,
    job: &Job,
    outputs: &[Output],
    options: &RunOptions,
    progress: &Progress<'_>,
    buffers: &mut Buffers,
    mut spans: Option<&mut Vec<Span>>,
) -> Result<u64, Error> {
    if let Some(spans) = &mut spans {
        spans.clear();
    }
    let mut values_are_read = false;
    // Targets of one tensor share the values: reading is half of the work of the fast formats.
    let mut read_once = |values: &mut Vec<f32>| {
        if !std::mem::replace(&mut values_are_read, true) {
            read(task, job, options, values)?;
        }
        Ok::<_, Error>(())
    };
    for target in &task.targets {
        let offset = target.offset + job.rows.start * row_bytes(task, target.dtype)?;
        let stored = stored(task, job, target.dtype)?;
        // Whether blocks hold numbers only shows when they are decoded. Values to encode are needed anyway.
        let checks_blocks = target.dtype.is_quantized() && options.nonfinite == NonFinite::Refuse;
        if stored.is_none() || checks_blocks {
            read_once(&mut buffers.values)?;
        }
        let mut bytes = match stored {
            Some(bytes) => bytes,
            None => {
                encode(task, job, target, options, buffers)?;
                Cow::Borrowed(&buffers.encoded[..])
            }
        };
        // All before this is little endian.
        if target.endian == Endian::Big {
            swap_blocks(target.dtype, bytes.to_mut());
        }
        if let Some(spans) = &mut spans {
            // While the bytes are in the cache.
            spans.push(Span::of(&bytes));
        }
        outputs[target.output].write_at(offset, &bytes)?;
        progress.wrote(target.output, bytes.len() as u64);
    }
    task.done_with(job.rows.clone());
    Ok(task.rows.input_bytes(job.rows.end - job.rows.start))
}

/// The stored bytes of a job, where they are what a target of this type wants.
fn stored<'a>(task: &'a TensorTask<'_>, job: &Job, dtype: DType) -> Result<Option<Cow<'a, [u8]>>, Error> {
    // What is rounded first is not what is stored, unless it is rounded to what the target wants.
    if task.via.is_some_and(|via| via != dtype) {
        return Ok(None);
    }
    let Some(bytes) = task.rows.stored(dtype, job.rows.clone())? else { return Ok(None) };
    // A float that is not finite goes the long way: there it is named, or written with the bits
    // that the reference gives to NaNs.
    let is_bad = finite::scan_raw(dtype, &bytes).is_some_and(|scan| scan.first_bad.is_some());
    Ok(Some(bytes).filter(|_| !is_bad))
}

/// Reads the rows of a job into `values`, (rows, row_elems) f32, rounded to the type between where there is one.
fn read(task: &TensorTask<'_>, job: &Job, options: &RunOptions, values: &mut Vec<f32>) -> Result<(), Error> {
    let n_elems = (job.rows.end - job.rows.start) * task.rows.view().row_elems;
    values.resize(n_elems as usize, 0.0);
    task.rows.read(job.rows.clone(), options.level, values)?;
    // Before rounding, which can make infinities of its own; those are found as overflow after encoding.
    if options.nonfinite == NonFinite::Refuse
        && let Some(index) = finite::scan(values).first_bad
    {
        let (row, column) = place(task, job, index);
        return Err(Error::NonFinite { tensor: task.name.clone(), row, column, value: values[index] });
    }
    if let Some(via) = task.via {
        let codec = |error| Error::Encode { tensor: task.name.clone(), error };
        let row_elems = task.rows.view().row_elems as usize;
        // Types between are floats, whose blocks are single elements.
        let mut rounded = vec![0; values.len() * via.block_bytes() as usize];
        let rows = Rows { values, row_elems, weights: None };
        quant::encode(via, options.level, rows, &mut rounded).map_err(codec)?;
        quant::decode(via, options.level, &rounded, values).map_err(codec)?;
    }
    Ok(())
}

/// Encodes `buffers.values` into `buffers.encoded`.
fn encode(
    task: &TensorTask<'_>,
    job: &Job,
    target: &Target<'_>,
    options: &RunOptions,
    buffers: &mut Buffers,
) -> Result<(), Error> {
    let Buffers { values, encoded, ones } = buffers;
    let codec = |error| Error::Encode { tensor: task.name.clone(), error };
    let row_elems = task.rows.view().row_elems as usize;
    let row_bytes = row_bytes(task, target.dtype)?;
    let n_rows = job.rows.end - job.rows.start;
    // Same length means that nothing is cleared; every byte is written below.
    encoded.resize((n_rows * row_bytes) as usize, 0);
    if target.weights == Some(Weights::Ones) && ones.len() < row_elems {
        ones.resize(row_elems, 1.0);
    }
    // One call of the codec has one row of weights for all its rows.
    for rows in ranges_of_equal_weights(job, target.weights) {
        let first = (rows.start - job.rows.start) as usize;
        let end = (rows.end - job.rows.start) as usize;
        let weights = target.weights.map(|weights| match weights {
            Weights::Ones => &ones[..row_elems],
            Weights::Rows { values, rows_per_expert } => {
                // A stack of stacks has more matrices than rows of weights: they repeat.
                let n_experts = (values.len() / row_elems.max(1)).max(1);
                let expert = (rows.start / rows_per_expert) as usize % n_experts;
                &values[expert * row_elems..(expert + 1) * row_elems]
            }
        });
        let rows = Rows { values: &values[first * row_elems..end * row_elems], row_elems, weights };
        let out = &mut encoded[first * row_bytes as usize..end * row_bytes as usize];
        quant::encode(target.dtype, options.level, rows, out).map_err(codec)?;
    }
    // Decoding what was just encoded costs, and only large values can overflow a scale: few tensors have any.
    if options.nonfinite == NonFinite::Refuse
        && target.dtype != DType::F32
        && finite::scan(values).max_abs > finite::SAFE_MAGNITUDE
    {
        let mut decoded = vec![0.0; values.len()];
        quant::decode(target.dtype, options.level, encoded, &mut decoded).map_err(codec)?;
        if let Some(index) = finite::scan(&decoded).first_bad {
            let (row, column) = place(task, job, index);
            let (tensor, value, dtype) = (task.name.clone(), values[index], target.dtype);
            return Err(Error::Overflow { tensor, row, column, value, dtype });
        }
    }
    Ok(())
}

/// The rows of a job, cut where the weights change: where an expert ends.
fn ranges_of_equal_weights(job: &Job, weights: Option<Weights<'_>>) -> Vec<Range<u64>> {
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

/// Bytes of one row, as the rows of the task count them.
fn row_bytes(task: &TensorTask<'_>, dtype: DType) -> Result<u64, Error> {
    let row_elems = task.rows.view().row_elems;
    let partial = |source| Error::Gguf(gguf::Error::Shape { tensor: task.name.clone(), source });
    tensor::Shape::new(&[row_elems]).and_then(|row| row.row_bytes(dtype)).map_err(partial)
}

/// Row and column of an element of a job, in the order of the output.
fn place(task: &TensorTask<'_>, job: &Job, index: usize) -> (u64, u64) {
    let view = task.rows.view();
    let at = job.rows.start * view.row_elems + index as u64;
    // A vector whose elements move has rows of one element; people see one row.
    if view.row_elems == 1 { (0, at) } else { (at / view.row_elems, at % view.row_elems) }
}

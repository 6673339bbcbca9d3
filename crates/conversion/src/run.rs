//! Runs the jobs: read, convert to f32, encode, write at a fixed offset.
//!
//! Threads take jobs from one counter over all tensors, so no thread waits for a tensor to end. The bytes of
//! a job depend only on its rows, so neither the number of threads nor their order can change a byte. Each
//! thread owns its buffers; together they are the memory of a run.
//!
//! One more thread syncs continuously: a file of 2.3 GB that is synced only at its end keeps every core idle
//! for 0.9 s.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};

use gguf_container::Output;

use crate::{
    Error,
    job::{Job, RowsLeft, Schedule, TensorTask},
    job_bytes::{Buffers, JobBytes, Made, row_bytes},
    journal::{Journal, Span},
    prefetch::Prefetch,
    run_options::RunOptions,
};

/// Progress reports and cancellation of a run.
#[derive(Clone, Copy)]
pub struct Watch<'a> {
    /// Set from anywhere to stop the run; started jobs are finished.
    pub cancel: &'a AtomicBool,
    /// Called by any thread after each job, with the number of input bytes that it covered.
    pub done: &'a (dyn Fn(&Job, u64) + Sync),
    /// Source files. They are checked again after the last job, so that a file that changed meanwhile causes
    /// an error.
    pub sources: &'a [gguf_container::Mapped],
    /// Called before outputs get their names. An error discards them.
    pub verify: &'a (dyn Fn() -> Result<(), Error> + Sync),
}

/// A run without progress, further sources and checks, which is never stopped.
impl Default for Watch<'_> {
    fn default() -> Self {
        static NEVER: AtomicBool = AtomicBool::new(false);
        Watch { cancel: &NEVER, done: &|_, _| {}, sources: &[], verify: &|| Ok(()) }
    }
}

impl Watch<'_> {
    /// Checks that the sources are unchanged and that the outputs may get their names.
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.sources.iter().try_for_each(gguf_container::Mapped::check_unchanged)?;
        (self.verify)()
    }
}

impl std::fmt::Debug for Watch<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").field("cancel", self.cancel).finish_non_exhaustive()
    }
}

/// Bytes between syncs: at most a second for most disks. Little is left to sync at the end, and syncs are too
/// few to slow down the run.
const SYNC_EVERY_BYTES: u64 = 128 << 20;

/// With a journal, work is synced and recorded after a tenth of the run's time so far, within these limits. A
/// crash loses a tenth of a short run, and seconds of a long one.
const NOTE_EVERY: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(5)];

/// Growth of outputs, for the sync thread.
struct Progress<'a> {
    /// Bytes written since the last sync, per output.
    unsynced_bytes: &'a [AtomicU64],
    /// Wakes the thread. It has room for one message, because writers must not wait.
    grown: mpsc::SyncSender<()>,
}

impl Progress<'_> {
    fn wrote(&self, output: usize, bytes: u64) {
        let unsynced = self.unsynced_bytes[output].fetch_add(bytes, Ordering::Relaxed) + bytes;
        if unsynced >= SYNC_EVERY_BYTES {
            // If a message is already pending, the sync thread wakes up anyway.
            let _ = self.grown.try_send(());
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

/// Like [`run`], but records in a journal which rows are in all outputs.
pub fn run_with(
    tasks: &[TensorTask<'_>],
    schedule: &Schedule,
    outputs: &[Output],
    journal: Option<&Journal<'_>>,
    options: &RunOptions,
    watch: Watch<'_>,
) -> Result<(), Error> {
    let n_threads = options.n_threads(schedule);
    // Index of the next job. Jobs are in checkpoint order, so that all threads together read the disk from
    // front to back.
    let next = AtomicUsize::new(0);
    let failed: Mutex<Option<(usize, Error)>> = Mutex::new(None);
    let stop = AtomicBool::new(false);
    let unsynced_bytes: Vec<AtomicU64> = outputs.iter().map(|_| AtomicU64::new(0)).collect();
    let fail = |index: usize, error: Error| {
        // Jobs are handed out in order, and started jobs finish, so every earlier job reports too. The
        // earliest error wins, as with one thread.
        let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
        if failed.as_ref().is_none_or(|(earliest, _)| index < *earliest) {
            *failed = Some((index, error));
        }
        stop.store(true, Ordering::Relaxed);
    };
    let prefetch = Prefetch::new(tasks, schedule);
    let left = RowsLeft::new(schedule.n_rows());
    let take_jobs = |progress: Progress<'_>| {
        let (mut buffers, mut spans) = (Buffers::default(), Vec::new());
        while !stop.load(Ordering::Relaxed) && !watch.cancel.load(Ordering::Relaxed) {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = schedule.job(index) else { break };
            if let Some(prefetch) = &prefetch {
                prefetch.taken(index);
            }
            let noted = journal.map(|journal| (journal, &mut spans));
            match run_job(&tasks[job.task], &job, outputs, options, &progress, &mut buffers, noted) {
                Ok(input_bytes) => {
                    left.done_with(tasks, &job);
                    if let Some(journal) = journal {
                        journal.wrote(job.task, job.rows.clone(), std::mem::take(&mut spans));
                    }
                    if let Some(prefetch) = &prefetch {
                        prefetch.done(input_bytes);
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
        // If this thread cannot start, everything is synced at the end.
        let sync = || sync_grown(outputs, &unsynced_bytes);
        // An error of any job takes precedence over a disk error.
        let failed = |error| fail(usize::MAX, error);
        let _ = thread::Builder::new()
            .spawn_scoped(scope, move || sync_while_growing(to_sync, journal, sync, failed));
        gguf_container::start_threads(scope, n_threads - 1, || {
            let progress = progress();
            || take_jobs(progress)
        });
        // This thread takes jobs too. Then drop our sender; otherwise the sync thread would wait forever and the scope
        // would not end.
        take_jobs(progress());
        drop(grown);
    });
    let result = match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        // Interruption of a thread that waited for bytes.
        Some((_, Error::Read(gguf_checkpoint::ReadError::Interrupted))) => return Err(Error::Cancelled),
        // An actual error takes precedence over the interruption.
        Some((_, error)) => Err(error),
        None if watch.cancel.load(Ordering::Relaxed) => return Err(Error::Cancelled),
        None => Ok(()),
    };
    // Before the result: writing after a source was truncated fails too, and that error is about the output.
    watch.sources.iter().try_for_each(gguf_container::Mapped::check_unchanged)?;
    result
}

/// Syncs outputs at each message, and records in the journal from time to time, until the last writer drops its sender.
fn sync_while_growing(
    grown: mpsc::Receiver<()>,
    journal: Option<&Journal<'_>>,
    sync: impl Fn() -> Result<(), Error>,
    failed: impl Fn(Error),
) {
    let began = Instant::now();
    let mut noted = began;
    loop {
        let due = noted + (began.elapsed() / 10).clamp(NOTE_EVERY[0], NOTE_EVERY[1]);
        let message = match journal {
            Some(_) => grown.recv_timeout(due.saturating_duration_since(Instant::now())),
            None => grown.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        if message == Err(RecvTimeoutError::Disconnected) {
            return;
        }
        // Large amounts are synced at once; recording them can wait.
        let result = match journal.filter(|_| Instant::now() >= due) {
            Some(journal) => {
                noted = Instant::now();
                journal.checkpoint(Some(&sync))
            }
            None => sync(),
        };
        if let Err(error) = result {
            failed(error);
        }
    }
}

/// Calls `work` with each index below `n_items` from threads with separate buffers, which take the next index
/// when they are free.
///
/// # Errors
/// The first error of `work`, after which no index is taken; [`Error::Cancelled`].
pub(crate) fn for_each<B: Default>(
    n_items: usize,
    n_threads: usize,
    cancel: &AtomicBool,
    work: impl Fn(usize, &mut B) -> Result<(), Error> + Sync,
) -> Result<(), Error> {
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(None));
    let take_items = || {
        let mut buffers = B::default();
        while !cancel.load(Ordering::Relaxed) {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= n_items {
                return;
            }
            if let Err(error) = work(index, &mut buffers) {
                failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                next.store(n_items, Ordering::Relaxed);
            }
        }
    };
    gguf_container::run_in_threads(n_threads.min(n_items), take_items);
    match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(error),
        None if cancel.load(Ordering::Relaxed) => Err(Error::Cancelled),
        None => Ok(()),
    }
}

/// Syncs outputs that have grown since the last time.
fn sync_grown(outputs: &[Output], unsynced_bytes: &[AtomicU64]) -> Result<(), Error> {
    let grown = outputs.iter().zip(unsynced_bytes).filter(|(_, bytes)| bytes.swap(0, Ordering::Relaxed) > 0);
    grown.into_iter().try_for_each(|(output, _)| Ok(output.sync_so_far()?))
}

/// Reads the rows once, encodes them for each target and writes them. Returns the input bytes, and in
/// `spans`, if given, the written spans.
fn run_job(
    task: &TensorTask<'_>,
    job: &Job,
    outputs: &[Output],
    options: &RunOptions,
    progress: &Progress<'_>,
    buffers: &mut Buffers,
    mut spans: Option<(&Journal<'_>, &mut Vec<Span>)>,
) -> Result<u64, Error> {
    if let Some((_, spans)) = &mut spans {
        spans.clear();
    }
    let mut made = JobBytes::new(task, job, options, buffers);
    for target in &task.targets {
        let offset = target.offset + job.rows.start * row_bytes(task, target.dtype)?;
        let Made { bytes, is_cheap } = made.of(target)?;
        if let Some((journal, spans)) = &mut spans {
            // While the bytes are in the cache.
            spans.push(journal.span(&bytes, is_cheap));
        }
        outputs[target.output].write_at(offset, &bytes)?;
        progress.wrote(target.output, bytes.len() as u64);
    }
    Ok(task.rows.input_bytes(job.rows.end - job.rows.start))
}

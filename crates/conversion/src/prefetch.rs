//! Announces upcoming reads to sources that must fetch the bytes first.

use std::sync::{Mutex, PoisonError};

use gguf_container::Advice;

use crate::job::{Schedule, TensorTask};

/// Bytes of input that are announced and not processed yet. A fast connection delivers this in half a second,
/// so that neither a slow request nor a quickly converted matrix makes threads wait. It is also the disk
/// space used at a time.
const AHEAD_BYTES: u64 = 64 << 20;
/// Maximum number of announced jobs: some have next to no bytes.
const AHEAD_JOBS: usize = 1024;

/// Announces jobs in order, ahead of the threads that take them.
pub(crate) struct Prefetch<'a> {
    tasks: &'a [TensorTask<'a>],
    schedule: &'a Schedule,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// First job that is not announced.
    next: usize,
    /// Bytes of announced jobs that are not done.
    bytes: u64,
}

impl<'a> Prefetch<'a> {
    /// Prefetching for the jobs of a run; `None` if all inputs are local, since the system reads ahead by
    /// itself.
    pub(crate) fn new(tasks: &'a [TensorTask<'a>], schedule: &'a Schedule) -> Option<Prefetch<'a>> {
        let is_fetched = tasks.iter().any(|task| task.rows.is_fetched());
        is_fetched.then(|| Prefetch { tasks, schedule, state: Mutex::default() })
    }

    /// Records that the job at `index` was taken. Announces it if necessary, and also the next one: if both
    /// read the same bytes, these are not released in between.
    pub(crate) fn taken(&self, index: usize) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while state.next <= index + 1 || (state.bytes < AHEAD_BYTES && state.next < index + AHEAD_JOBS) {
            let Some(job) = self.schedule.job(state.next) else { return };
            let rows = &self.tasks[job.task].rows;
            state.bytes += rows.input_bytes(job.rows.end - job.rows.start);
            state.next += 1;
            rows.advise(job.rows, Advice::WillNeed);
        }
    }

    /// Records that a job with this many input bytes is done.
    pub(crate) fn done(&self, bytes: u64) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.bytes = state.bytes.saturating_sub(bytes);
    }
}

//! Announces upcoming reads to sources that must fetch the bytes first.

use std::sync::{Mutex, PoisonError};

use gguf_container::Advice;

use crate::job::{Schedule, TensorTask};

/// Bytes of input that are announced and not done with. A good line brings that in half a second, so that neither a
/// request that takes its time nor a matrix that is quickly converted lets threads wait; it is what the disk holds at a time.
const AHEAD_BYTES: u64 = 64 << 20;
/// Jobs that are announced at most: some have next to no bytes.
const AHEAD_JOBS: usize = 1024;

/// Announces jobs in their order, ahead of those who take them.
pub(crate) struct Prefetch<'a> {
    tasks: &'a [TensorTask<'a>],
    schedule: &'a Schedule,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The first job that is not announced.
    next: usize,
    /// Bytes of announced jobs that are not done with.
    bytes: u64,
}

impl<'a> Prefetch<'a> {
    /// For the jobs of a run; none where all inputs are on this machine, whose system reads ahead by itself.
    pub(crate) fn new(tasks: &'a [TensorTask<'a>], schedule: &'a Schedule) -> Option<Prefetch<'a>> {
        let is_fetched = tasks.iter().any(|task| task.rows.is_fetched());
        is_fetched.then(|| Prefetch { tasks, schedule, state: Mutex::default() })
    }

    /// Records that the job at `index` was taken. It is announced now if it was not before, and so is the
    /// next one: if both read the same bytes, these are not released in between.
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

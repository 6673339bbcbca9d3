//! What a run is going to read, said in time to those who have to fetch it first.

use std::sync::{Mutex, PoisonError};

use gguf::Advice;

use crate::job::{Schedule, TensorTask};

/// Bytes of input that are announced and not done with. A good line brings that in half a second, so that neither a
/// request that takes its time nor a matrix that is quickly converted lets threads wait; it is what the disk holds at a time.
const AHEAD_BYTES: u64 = 64 << 20;
/// Jobs that are announced at most: some have next to no bytes.
const AHEAD_JOBS: usize = 1024;

/// Announces jobs in their order, ahead of those who take them.
pub(crate) struct Ahead<'a> {
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

impl<'a> Ahead<'a> {
    /// For the jobs of a run; none where all inputs are on this machine, whose system reads ahead by itself.
    pub(crate) fn new(tasks: &'a [TensorTask<'a>], schedule: &'a Schedule) -> Option<Ahead<'a>> {
        let is_fetched = tasks.iter().any(|task| task.rows.is_fetched());
        is_fetched.then(|| Ahead { tasks, schedule, state: Mutex::default() })
    }

    /// Somebody takes the job at `index`. It is announced now if it has not been, and the one behind it too: where both
    /// read the same bytes, these do not go between the two.
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

    /// Somebody has done a job of so many bytes of input.
    pub(crate) fn done(&self, bytes: u64) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.bytes = state.bytes.saturating_sub(bytes);
    }
}

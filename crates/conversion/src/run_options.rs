use std::{num::NonZeroUsize, sync::Arc, thread};

use gguf_quant::Level;

use crate::{job::Schedule, losses::Losses};

/// Options of a run.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RunOptions {
    /// Number of threads; `None` means one per core.
    pub threads: Option<NonZeroUsize>,
    /// The CPU level of the kernels.
    pub level: Level,
    /// Treatment of values that are not finite.
    pub nonfinite: NonFinite,
    /// Record of tensors that are or become zero.
    pub losses: Option<Arc<Losses>>,
}

impl RunOptions {
    /// Sets the number of threads.
    pub fn threads(self, threads: Option<NonZeroUsize>) -> RunOptions {
        RunOptions { threads, ..self }
    }

    /// Sets the CPU level.
    pub fn level(self, level: Level) -> RunOptions {
        RunOptions { level, ..self }
    }

    /// Number of threads for a schedule.
    pub(crate) fn n_threads(&self, schedule: &Schedule) -> usize {
        // Cores available to this process, which containers and `taskset` may limit.
        let threads = self.threads.or_else(|| thread::available_parallelism().ok());
        // More threads than jobs would only wait.
        threads.map_or(1, NonZeroUsize::get).min(schedule.len()).max(1)
    }

    /// Sets the record of tensors that are or become zero.
    pub fn losses(self, losses: Arc<Losses>) -> RunOptions {
        RunOptions { losses: Some(losses), ..self }
    }

    /// Sets the treatment of values that are not finite.
    pub fn nonfinite(self, nonfinite: NonFinite) -> RunOptions {
        RunOptions { nonfinite, ..self }
    }
}

impl Default for RunOptions {
    fn default() -> RunOptions {
        RunOptions { threads: None, level: Level::detect(), nonfinite: NonFinite::Refuse, losses: None }
    }
}

/// Treatment of NaNs and infinities in the weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NonFinite {
    /// Fail with the first one, like `llama-quantize` (`ggml_validate_row_data` of input and result).
    Refuse,
    /// Convert them like any other value, like the reference's converter.
    Allow,
}

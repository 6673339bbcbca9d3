//! Comparison of a file with the record of its original.

use std::{
    num::NonZeroUsize,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use gguf_toolkit::{Events, Progress, check_against::CheckAgainst};
use pyo3::prelude::*;

use crate::work::{OnStop, Shared, run};

/// Passes progress and cancellation on.
struct Watched<'a> {
    shared: &'a Shared,
}

/// Progress of a stage.
struct Stage<'a> {
    shared: &'a Shared,
    done: AtomicU64,
    total: u64,
}

impl Progress for Stage<'_> {
    fn add(&self, n_bytes: u64) {
        let done = self.done.fetch_add(n_bytes, Ordering::Relaxed) + n_bytes;
        self.shared.report(done, self.total);
    }
}

impl Events for Watched<'_> {
    fn progress(&self, n_bytes: u64) -> Box<dyn Progress + '_> {
        Box::new(Stage { shared: self.shared, done: AtomicU64::new(0), total: n_bytes })
    }

    fn cancel(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.shared.cancel)
    }
}

/// The report as text and as JSON.
#[pyfunction]
pub fn check_against(
    py: Python<'_>,
    file: PathBuf,
    record: PathBuf,
    checkpoint: Option<PathBuf>,
    threads: Option<NonZeroUsize>,
    progress: Option<Py<PyAny>>,
) -> PyResult<(String, String)> {
    run(py, progress, OnStop::Leave, move |shared: &Shared| {
        let mut check = CheckAgainst::new(file, record);
        (check.weights, check.threads) = (checkpoint, threads);
        let report = check.run(&Watched { shared })?;
        Ok((report.text(), report.json()?))
    })
}

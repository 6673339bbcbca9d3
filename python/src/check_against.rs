//! Comparison of a file with the record of its original.

use std::{num::NonZeroUsize, path::PathBuf};

use gguf_toolkit::check_against::CheckAgainst;
use pyo3::prelude::*;

use crate::{
    events::Shared,
    work::{OnStop, run},
};

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
        let report = check.run(shared)?;
        Ok((report.text(), report.json()?))
    })
}

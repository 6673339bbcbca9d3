//! Measurements: options and reports cross as JSON.

use std::path::Path;

use gguf_toolkit::{
    CompareOptions, Events, ImatrixOptions, PerplexityOptions,
    check::{CheckOptions, Checked},
    outputs::write_result,
};
use pyo3::prelude::*;

use crate::{
    edit::{Reply, call},
    work::OnStop,
};

/// Perplexity of a file.
#[pyfunction]
pub fn perplexity(py: Python<'_>, options: &str, progress: Option<Py<PyAny>>) -> PyResult<Reply> {
    call(py, options, progress, OnStop::Leave, |options: &PerplexityOptions, events| {
        Ok(gguf_toolkit::perplexity(options, events)?.json())
    })
}

/// Differences of files from their base.
#[pyfunction]
pub fn compare(py: Python<'_>, options: &str, progress: Option<Py<PyAny>>) -> PyResult<Reply> {
    call(py, options, progress, OnStop::Leave, |options: &CompareOptions, events| {
        let compared = gguf_toolkit::compare(options, events)?;
        let report = compared.report.clone();
        // Hours of measuring are not lost for a page that cannot be written.
        if let Err(error) = compared.finish(options, events) {
            (events as &dyn Events).warning(&error.to_string());
        }
        Ok(report)
    })
}

/// An importance matrix. Partial results are saved after Ctrl-C.
#[pyfunction]
pub fn imatrix(py: Python<'_>, options: &str, progress: Option<Py<PyAny>>) -> PyResult<Reply> {
    call(py, options, progress, OnStop::Wait, |options: &ImatrixOptions, events| {
        gguf_toolkit::imatrix(options, events)
    })
}

/// Comparison with a baseline, or a new baseline.
#[pyfunction]
pub fn check(py: Python<'_>, options: &str, progress: Option<Py<PyAny>>) -> PyResult<Reply> {
    call(py, options, progress, OnStop::Leave, |options: &CheckOptions, events| {
        match gguf_toolkit::check::check(options, events)? {
            Checked::Compared(verdicts) => Ok(verdicts),
            Checked::Saved(json) => {
                write_result(&options.baseline, json.as_bytes(), options.force, Path::new(""))?;
                Ok(Vec::new())
            }
        }
    })
}

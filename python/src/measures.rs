//! Measures how well files predict a text.

use std::path::PathBuf;

use gguf_toolkit::{Activations, Comparison, Measuring};
use pyo3::prelude::*;

use crate::{
    errors::value_error,
    work::{OnStop, Shared, run},
};

/// Arguments of both measurements: the text, tokens in a chunk, maximum number of chunks, threads,
/// activations.
type How = (Vec<u8>, usize, Option<usize>, Option<usize>, String);

fn measuring<'a>(
    how: &How,
    shared: &'a Shared,
    progress: &'a (dyn Fn(usize, usize) + Sync),
) -> Measuring<'a> {
    let (_, context, chunks, threads, activations) = how;
    Measuring {
        context: *context,
        chunks: *chunks,
        threads: *threads,
        activations: named(activations).unwrap_or_default(),
        progress: Some(progress),
        cancel: Some(&shared.cancel),
    }
}

fn named(name: &str) -> Option<Activations> {
    Activations::ALL.iter().copied().find(|kind| kind.name() == name)
}

fn check(how: &How) -> PyResult<()> {
    match named(&how.4) {
        Some(_) => Ok(()),
        None => Err(value_error(format!("activations: expected `f32` or `rounded`, found `{}`", how.4))),
    }
}

/// Value, its standard error, mean loss, chunks, tokens counted.
#[pyfunction]
pub fn perplexity(
    py: Python<'_>,
    path: PathBuf,
    how: How,
    progress: Option<Py<PyAny>>,
) -> PyResult<(f64, Option<f64>, f64, usize, usize)> {
    check(&how)?;
    let found = run(py, progress, OnStop::Leave, move |shared: &Shared| {
        let report = |done: usize, total: usize| shared.report(done as u64, total as u64);
        gguf_toolkit::perplexity(path, &how.0, &measuring(&how, shared, &report))
    })?;
    Ok((found.value(), found.error(), found.mean(), found.n_chunks, found.count))
}

/// The comparison as JSON, which Python reads.
#[pyfunction]
pub fn compare(
    py: Python<'_>,
    base: PathBuf,
    other: PathBuf,
    how: How,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    check(&how)?;
    let found: Comparison = run(py, progress, OnStop::Leave, move |shared: &Shared| {
        let report = |done: usize, total: usize| shared.report(done as u64, total as u64);
        gguf_toolkit::compare(base, other, &how.0, &measuring(&how, shared, &report))
    })?;
    serde_json::to_string(&found).map_err(|error| value_error(error.to_string()))
}

//! Measures how well files predict a text.

use std::{
    path::PathBuf,
    sync::{Arc, atomic::AtomicBool},
};

use gguf_toolkit::{
    Activations, ChunkSettings, CompareOptions, Events, PerplexityOptions, RunOptions, StatusLine, Text,
};
use pyo3::prelude::*;

use crate::{
    errors::value_error,
    work::{OnStop, Shared, run},
};

/// Arguments of both measurements: the text, tokens in a chunk, maximum number of chunks, threads,
/// activations.
type How = (Vec<u8>, usize, Option<usize>, Option<usize>, String);

/// Chunks of the text, and options for running models.
fn settings(how: &How) -> (ChunkSettings, RunOptions) {
    let (_, context, chunks, threads, activations) = how;
    let settings = ChunkSettings { context: *context, n_chunks: *chunks, stride: None };
    let threads = threads.and_then(|threads| threads.try_into().ok());
    (settings, RunOptions { threads, activations: named(activations).unwrap_or_default() })
}

impl Events for Shared {
    fn status_line(&self) -> Box<dyn StatusLine> {
        Box::new(self.counter())
    }

    fn cancel(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.cancel)
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
        let (chunks, run) = settings(&how);
        let options = PerplexityOptions { file: path, text: Text::Bytes(how.0), chunks, run };
        gguf_toolkit::perplexity(&options, shared)
    })?;
    let found = found.perplexity;
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
    let found = run(py, progress, OnStop::Leave, move |shared: &Shared| {
        let (chunks, run) = settings(&how);
        let text = Some(Text::Bytes(how.0));
        let options = CompareOptions { base, files: vec![other], text, chunks, run, ..Default::default() };
        gguf_toolkit::compare(&options, shared)
    })?;
    let found = found.report.files.first().and_then(|file| file.predictions.clone());
    serde_json::to_string(&found).map_err(|error| value_error(error.to_string()))
}

//! Calls that check, compare, edit and divide files: options and reports cross as JSON.

use gguf_toolkit::{
    Error, diff, edit, endian, export_metadata, extract, fit, hash, merge, split,
    verify::{self, VerifyOptions},
};
use pyo3::prelude::*;
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    errors::value_error,
    events::Reported,
    jobs::hub_options,
    work::{OnStop, Shared, run},
};

/// A report as JSON, and the warnings of the run.
pub type Reply = (String, Vec<String>);

/// Runs `work` with the options in `json`.
pub fn call<O, R>(
    py: Python<'_>,
    json: &str,
    progress: Option<Py<PyAny>>,
    on_stop: OnStop,
    work: impl FnOnce(&O, &Reported<'_>) -> Result<R, Error> + Send + 'static,
) -> PyResult<Reply>
where
    O: DeserializeOwned + Send + 'static,
    R: Serialize,
{
    let options: O = serde_json::from_str(json).map_err(|error| value_error(error.to_string()))?;
    run(py, progress, on_stop, move |shared: &Shared| {
        let events = Reported::new(shared);
        let report = work(&options, &events)?;
        Ok((serde_json::to_string(&report)?, events.take_warnings()))
    })
}

macro_rules! calls {
    ($($(#[$doc:meta])* $name:ident => $function:path;)*) => {$(
        $(#[$doc])*
        #[pyfunction]
        pub fn $name(py: Python<'_>, options: &str, progress: Option<Py<PyAny>>) -> PyResult<Reply> {
            call(py, options, progress, OnStop::Wait, |options, events| $function(options, events))
        }
    )*};
}

calls! {
    /// Changes metadata.
    edit_metadata => edit::edit;
    /// Splits a file into shards.
    split_file => split::split;
    /// Merges shards into a file.
    merge_shards => merge::merge;
    /// Changes the byte order.
    change_endian => endian::change_endian;
    /// Writes tensors to a file of another format.
    extract_tensors => extract::extract;
    /// Estimates memory.
    fit_memory => fit::fit;
    /// Compares two files.
    diff_files => diff::diff;
    /// Exports metadata.
    export_keys => export_metadata::export_metadata;
    /// Computes digests.
    hash_files => hash::hash;
}

/// Checks a file. Environment variables of the Hub are read if the source is there.
#[pyfunction]
pub fn verify_file(py: Python<'_>, options: &str, progress: Option<Py<PyAny>>) -> PyResult<Reply> {
    call(py, options, progress, OnStop::Wait, |options: &VerifyOptions, events| {
        verify::verify(options, &hub_options(), events)
    })
}

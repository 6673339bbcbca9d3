//! Exceptions for errors: `gguf_tools.GgufError`, with the facts of the message as fields.

use gguf_toolkit::Error;
use pyo3::{exceptions::PyKeyboardInterrupt, prelude::*, types::PyDict};

/// Results whose errors become exceptions.
pub trait Raised<T> {
    /// The value, or the exception of the error.
    fn raised(self, py: Python<'_>) -> PyResult<T>;
}

impl<T, E: Into<Error>> Raised<T> for Result<T, E> {
    fn raised(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|error| exception(py, &error.into()))
    }
}

/// The exception of an error.
pub fn exception(py: Python<'_>, error: &Error) -> PyErr {
    if error.is_interrupted() {
        return PyKeyboardInterrupt::new_err(error.to_string());
    }
    built(py, error).unwrap_or_else(|failure| failure)
}

fn built(py: Python<'_>, error: &Error) -> PyResult<PyErr> {
    let fields = error.fields();
    let values = PyDict::new(py);
    // A file inside of the folder is more precise than the folder.
    let outer = error.path().map(|file| file.to_string_lossy().into_owned());
    values.set_item("file", fields.file.or(outer))?;
    values.set_item("tensor", fields.tensor)?;
    values.set_item("key", fields.key)?;
    values.set_item("expected", fields.expected)?;
    values.set_item("found", fields.found)?;
    let build = py.import("gguf_tools._errors")?.getattr("from_native")?;
    Ok(PyErr::from_value(build.call1((error.to_string(), error.hints(), values))?))
}

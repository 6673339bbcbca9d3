//! Errors become exceptions with fields: `gguf_tools.GgufError`.

use gguf_toolkit::Error;
use pyo3::{
    exceptions::{PyKeyboardInterrupt, PyValueError},
    prelude::*,
    types::PyDict,
};

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
    // A file inside of the folder says more than the folder.
    let outer = error.path().map(|file| file.to_string_lossy().into_owned());
    values.set_item("file", fields.file.or(outer))?;
    values.set_item("tensor", fields.tensor)?;
    values.set_item("key", fields.key)?;
    values.set_item("expected", fields.expected)?;
    values.set_item("found", fields.found)?;
    let hints = error.hints();
    values.set_item("hint", (!hints.is_empty()).then(|| hints.join("; ")))?;
    let class = py.import("gguf_tools._errors")?.getattr("GgufError")?;
    Ok(PyErr::from_value(class.call((error.to_string(),), Some(&values))?))
}

/// For arguments that no Rust type refuses.
pub fn value_error(message: String) -> PyErr {
    PyValueError::new_err(message)
}

//! Exceptions for errors: `gguf_tools.GgufError`, with the facts of the message as fields.

use gguf_toolkit::{Error, Part};
use pyo3::{exceptions::PyKeyboardInterrupt, prelude::*, types::PyList};

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
    let mut facts = error.facts();
    // A file inside of the folder is more precise than the folder.
    if let (None, Some(file)) = (facts.get("file"), error.path()) {
        facts.insert("file", file.to_string_lossy().into_owned());
    }
    let hints = error.hints().iter().map(|hint| parts(py, hint.parts())).collect::<PyResult<Vec<_>>>()?;
    let build = py.import("gguf_tools._errors")?.getattr("from_native")?;
    Ok(PyErr::from_value(build.call1((parts(py, error.message().parts())?, hints, facts))?))
}

/// Parts of a message: texts, a tuple of name and value for each option, and a list for each command.
pub fn parts<'py>(py: Python<'py>, words: &[Part]) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for part in words {
        match part {
            Part::Text(text) => list.append(text)?,
            Part::Option(name, value) => list.append((name, value))?,
            Part::Command(words) => list.append(parts(py, words)?)?,
        }
    }
    Ok(list)
}

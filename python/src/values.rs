//! Metadata as values of Python, and tables of the supported types and architectures.

use gguf_toolkit::{Array, DType, Metadata, Value};
use pyo3::{
    exceptions::PyKeyError,
    prelude::*,
    types::{PyBytes, PyList, PyString},
};

/// The metadata keys in the order of the file.
pub fn keys(metadata: &Metadata) -> Vec<&str> {
    metadata.iter().map(|(key, _)| key.as_str()).collect()
}

/// The value of a key.
pub fn of_key<'py>(py: Python<'py>, metadata: &Metadata, key: &str) -> PyResult<Bound<'py, PyAny>> {
    match metadata.get(key) {
        Some(found) => value(py, found),
        None => Err(PyKeyError::new_err(key.to_owned())),
    }
}

/// Converts a metadata value: a number, a bool, a string (bytes if it is not UTF-8), a list.
fn value<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::U8(v) => v.into_pyobject(py)?.into_any(),
        Value::I8(v) => v.into_pyobject(py)?.into_any(),
        Value::U16(v) => v.into_pyobject(py)?.into_any(),
        Value::I16(v) => v.into_pyobject(py)?.into_any(),
        Value::U32(v) => v.into_pyobject(py)?.into_any(),
        Value::I32(v) => v.into_pyobject(py)?.into_any(),
        Value::F32(v) => v.into_pyobject(py)?.into_any(),
        Value::Bool(v) => v.into_pyobject(py)?.to_owned().into_any(),
        Value::String(v) => text(py, v),
        Value::Array(v) => list(py, v)?,
        Value::U64(v) => v.into_pyobject(py)?.into_any(),
        Value::I64(v) => v.into_pyobject(py)?.into_any(),
        Value::F64(v) => v.into_pyobject(py)?.into_any(),
        // The types of the format are fixed; a new one fails the tests of the package.
        _ => py.None().into_bound(py),
    })
}

fn text<'py>(py: Python<'py>, bytes: &[u8]) -> Bound<'py, PyAny> {
    match std::str::from_utf8(bytes) {
        Ok(text) => PyString::new(py, text).into_any(),
        Err(_) => PyBytes::new(py, bytes).into_any(),
    }
}

fn list<'py>(py: Python<'py>, array: &Array) -> PyResult<Bound<'py, PyAny>> {
    Ok(match array {
        // A vector of bytes would become `bytes`.
        Array::U8(v) => PyList::new(py, v.iter().map(|v| u16::from(*v)))?,
        Array::I8(v) => PyList::new(py, v)?,
        Array::U16(v) => PyList::new(py, v)?,
        Array::I16(v) => PyList::new(py, v)?,
        Array::U32(v) => PyList::new(py, v)?,
        Array::I32(v) => PyList::new(py, v)?,
        Array::F32(v) => PyList::new(py, v)?,
        Array::Bool(v) => PyList::new(py, v)?,
        Array::String(v) => {
            let texts: Vec<_> = v.iter().map(|bytes| text(py, bytes)).collect();
            PyList::new(py, texts)?
        }
        Array::Array(v) => {
            let inner = v.iter().map(|array| list(py, array)).collect::<PyResult<Vec<_>>>()?;
            PyList::new(py, inner)?
        }
        Array::U64(v) => PyList::new(py, v)?,
        Array::I64(v) => PyList::new(py, v)?,
        Array::F64(v) => PyList::new(py, v)?,
        _ => PyList::empty(py),
    }
    .into_any())
}

/// Names of the file types.
#[pyfunction]
pub fn types() -> Vec<String> {
    let recipes = gguf_toolkit::types().iter().filter(|recipe| !recipe.copy && recipe.alias_of.is_none());
    recipes.map(|recipe| recipe.name.to_lowercase()).collect()
}

/// Name, elements and bytes of a block of each tensor type, true if it can be encoded, and true if that needs weights.
#[pyfunction]
pub fn tensor_types() -> Vec<(String, u64, u64, bool, bool)> {
    let row = |dtype: &DType| {
        let needs = gguf_toolkit::quant::codec(*dtype).is_some_and(|codec| codec.needs_weights);
        let name = dtype.name().to_lowercase();
        (name, dtype.block_elems(), dtype.block_bytes(), dtype.is_encodable(), needs)
    };
    gguf_toolkit::dtypes().iter().map(row).collect()
}

/// Name and class names of each architecture.
#[pyfunction]
pub fn architectures() -> Vec<(String, Vec<String>)> {
    let row = |arch: &gguf_toolkit::Arch| {
        (arch.name.to_owned(), arch.classes.iter().map(|class| class.name.to_owned()).collect())
    };
    gguf_toolkit::architectures().iter().map(row).collect()
}

//! Encoding and decoding of one matrix.

use gguf_toolkit::DType;
use numpy::{PyArray2, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::prelude::*;

use crate::errors::Raised as _;

/// The tensor type of this name.
pub fn dtype_of(py: Python<'_>, name: &str) -> PyResult<DType> {
    DType::from_name(name).raised(py)
}

/// (rows, row_elems) f32 to (rows, row bytes).
#[pyfunction]
pub fn encode<'py>(
    py: Python<'py>,
    values: PyReadonlyArray2<'py, f32>,
    dtype: &str,
    importance: Option<PyReadonlyArray1<'py, f32>>,
) -> PyResult<Bound<'py, PyArray2<u8>>> {
    let dtype = dtype_of(py, dtype)?;
    let importance = importance.map(|weights| weights.as_array().to_vec());
    let rows = values.as_array();
    let blocks = py.detach(|| match &importance {
        Some(importance) => gguf_toolkit::encode_weighted(dtype, rows, importance),
        None => gguf_toolkit::encode(dtype, rows),
    });
    Ok(PyArray2::from_owned_array(py, blocks.raised(py)?))
}

/// (rows, row bytes) to (rows, row_elems) f32.
#[pyfunction]
pub fn decode<'py>(
    py: Python<'py>,
    blocks: PyReadonlyArray2<'py, u8>,
    dtype: &str,
) -> PyResult<Bound<'py, PyArray2<f32>>> {
    let dtype = dtype_of(py, dtype)?;
    let rows = blocks.as_array();
    let values = py.detach(|| gguf_toolkit::decode(dtype, rows));
    Ok(PyArray2::from_owned_array(py, values.raised(py)?))
}

//! Conversion of a model in memory.

use std::sync::Arc;

use gguf_toolkit::{Memory, MemoryTensor, Save, source::Dtype};
use numpy::PyArray1;
use pyo3::{exceptions::PyValueError, prelude::*};

use crate::{
    calls::parsed,
    events::Shared,
    lent::Lent,
    work::{OnStop, run},
};

/// Name, dtype of safetensors, shape and bytes of each tensor.
type Tensors<'py> = Vec<(String, String, Vec<u64>, Bound<'py, PyArray1<u8>>)>;

/// Converts tensors and small files in memory to GGUF files, and returns the report as JSON.
#[pyfunction]
pub fn save(
    py: Python<'_>,
    name: String,
    files: Vec<(String, Vec<u8>)>,
    tensors: Tensors<'_>,
    options: &str,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let save: Save = parsed(options)?;
    let tensor = |(name, dtype, shape, bytes): (String, String, Vec<u64>, Bound<'_, PyArray1<u8>>)| {
        let Some(dtype) = Dtype::from_name(&dtype) else {
            return Err(PyValueError::new_err(format!("tensor `{name}`: unknown dtype `{dtype}`")));
        };
        Ok(MemoryTensor { name, dtype, shape, bytes: Arc::new(Lent::new(&bytes)?) })
    };
    let tensors = tensors.into_iter().map(tensor).collect::<PyResult<_>>()?;
    let mut memory = Memory::default();
    (memory.name, memory.files, memory.tensors) = (name, files, tensors);
    run(py, progress, OnStop::Wait, move |shared: &Shared| {
        Ok(serde_json::to_string(&save.run(memory, shared)?)?)
    })
}

//! An open GGUF file. Python maps the file itself and creates arrays over it.

use std::path::PathBuf;

use gguf_toolkit::{Endian, GgufFile};
use numpy::PyArrayDyn;
use pyo3::{exceptions::PyKeyError, prelude::*};

use crate::{errors::Raised as _, values};

/// GGUF model in one file or several shards.
#[pyclass(frozen, module = "gguf_tools._native")]
pub struct File {
    file: GgufFile,
}

/// Name, type, shape, path of the file, offset in it, bytes.
type Tensor = (String, String, Vec<usize>, PathBuf, u64, u64);

#[pymethods]
impl File {
    #[new]
    fn new(py: Python<'_>, path: PathBuf) -> PyResult<File> {
        let file = py.detach(|| gguf_toolkit::open(&path)).raised(py)?;
        Ok(File { file })
    }

    /// The metadata keys in the order of the file.
    fn keys(&self) -> Vec<&str> {
        values::keys(self.file.metadata())
    }

    /// The value of a key.
    fn value<'py>(&self, py: Python<'py>, key: &str) -> PyResult<Bound<'py, PyAny>> {
        values::of_key(py, self.file.metadata(), key)
    }

    /// All tensors in order.
    fn tensors(&self) -> Vec<Tensor> {
        let tensors = self.file.tensors();
        tensors
            .map(|tensor| {
                let (name, dtype) = (tensor.name().to_owned(), tensor.dtype().name().to_lowercase());
                (name, dtype, tensor.shape(), tensor.path().to_owned(), tensor.offset(), tensor.n_bytes())
            })
            .collect()
    }

    /// True if numbers are in big-endian order.
    fn is_big_endian(&self) -> bool {
        self.file.model().first().endian() == Endian::Big
    }

    /// The values of a tensor as f32, in its shape.
    fn decode<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyArrayDyn<f32>>> {
        let Some(tensor) = self.file.tensor(name) else { return Err(PyKeyError::new_err(name.to_owned())) };
        let values = py.detach(|| tensor.decode()).raised(py)?;
        Ok(PyArrayDyn::from_owned_array(py, values))
    }
}

//! A file that is being written: keys and tensors are added, then data is written at once or tensor by tensor.

use std::path::PathBuf;

use gguf_toolkit::{Array, Endian, SplitLimits, Value, Writer, metadata_json::value_of, writer::OpenFiles};
use numpy::PyReadonlyArray1;
use pyo3::{
    exceptions::PyValueError,
    prelude::*,
    types::{PyBytes, PyString},
};

use crate::{arrays::dtype_of, errors::Raised as _};

/// Name, offset and bytes of a tensor.
type Tensor = (String, u64, u64);

/// State of the file.
#[pyclass(module = "gguf_tools._native")]
pub struct FileWriter {
    writer: Writer<'static>,
    open: Option<OpenFiles>,
}

#[pymethods]
impl FileWriter {
    /// A file without keys. `max_tensors` and `max_bytes` of 0 do not limit shards.
    #[new]
    fn new(big_endian: bool, max_tensors: u64, max_bytes: u64, no_tensor_first: bool) -> FileWriter {
        let mut writer = Writer::default();
        writer.set_endian(if big_endian { Endian::Big } else { Endian::Little });
        let limit = |limit: u64| (limit > 0).then_some(limit);
        let (max_tensors, max_bytes) = (limit(max_tensors), limit(max_bytes));
        writer.set_split(SplitLimits { max_bytes, max_tensors, no_tensor_first });
        FileWriter { writer, open: None }
    }

    /// Sets a key to a value of this type, as `show` names types.
    fn set(&mut self, key: String, kind: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let value = metadata_value(kind, value)
            .map_err(|error| PyValueError::new_err(format!("key `{key}`: {error}")))?;
        self.writer.metadata_mut().set(key, value);
        Ok(())
    }

    /// Removes a key; true if it existed.
    fn remove(&mut self, key: &str) -> bool {
        self.writer.metadata_mut().remove(key).is_some()
    }

    /// True if the key is set.
    fn has_key(&self, key: &str) -> bool {
        self.writer.metadata().contains(key)
    }

    /// Adds a tensor without data, row length last. Fails unless its data has `n_bytes`, if they are stated.
    fn add_tensor(
        &mut self,
        py: Python<'_>,
        name: &str,
        shape: Vec<usize>,
        dtype: &str,
        n_bytes: Option<u64>,
    ) -> PyResult<()> {
        let dtype = dtype_of(py, dtype)?;
        let added = match n_bytes {
            Some(n_bytes) => self.writer.add_sized_tensor_info(name, &shape, dtype, n_bytes),
            None => self.writer.add_tensor_info(name, &shape, dtype),
        };
        added.map(drop).raised(py)
    }

    /// File length, and name, offset and bytes of each tensor, of every file.
    fn plan(&self, py: Python<'_>) -> PyResult<Vec<(u64, Vec<Tensor>)>> {
        let plans = self.writer.plan().raised(py)?;
        let tensor =
            |tensor: &gguf_toolkit::PlannedTensor| (tensor.name.clone(), tensor.offset, tensor.n_bytes);
        Ok(plans.iter().map(|plan| (plan.file_len(), plan.tensors().iter().map(tensor).collect())).collect())
    }

    /// Writes a file that has only metadata.
    fn write_metadata(&self, py: Python<'_>, path: PathBuf, force: bool) -> PyResult<()> {
        self.writer.write_metadata(path, force).raised(py)
    }

    /// Creates the files with their headers.
    fn open(&mut self, py: Python<'_>, path: PathBuf, force: bool) -> PyResult<()> {
        self.open = Some(self.writer.open(path, force).raised(py)?);
        Ok(())
    }

    /// Name and bytes of the tensor that is written next.
    fn next_tensor(&self) -> Option<(String, u64)> {
        let tensor = self.open.as_ref()?.next_tensor()?;
        Some((tensor.name.clone(), tensor.n_bytes))
    }

    /// Writes the next bytes, in little-endian order.
    fn write(&mut self, py: Python<'_>, bytes: PyReadonlyArray1<'_, u8>) -> PyResult<()> {
        let Some(open) = &mut self.open else { return Err(PyValueError::new_err("the file is not open")) };
        open.write(bytes.as_slice()?).raised(py)
    }

    /// Completes the files, and returns their paths.
    fn finish(&mut self, py: Python<'_>) -> PyResult<Vec<PathBuf>> {
        match self.open.take() {
            Some(open) => py.detach(|| open.finish()).raised(py),
            None => Ok(Vec::new()),
        }
    }

    /// Removes files that are not finished.
    fn discard(&mut self) {
        self.open = None;
    }
}

/// The value of a type from its value in Python.
fn metadata_value(kind: &str, value: &Bound<'_, PyAny>) -> Result<Value, String> {
    let failed = |error: PyErr| error.to_string();
    Ok(match kind {
        "f32" => Value::F32(value.extract::<f64>().map_err(failed)? as f32),
        "f64" => Value::F64(value.extract().map_err(failed)?),
        "str" => Value::String(text(value)?),
        "arr[f32]" => {
            let items: Vec<f64> = value.extract().map_err(failed)?;
            Value::from(items.into_iter().map(|item| item as f32).collect::<Vec<_>>())
        }
        "arr[f64]" => Value::from(value.extract::<Vec<f64>>().map_err(failed)?),
        "arr[u8]" => Value::from(value.extract::<Vec<u8>>().map_err(failed)?),
        "arr[str]" => {
            let items = value.try_iter().map_err(failed)?;
            let items = items.map(|item| text(&item.map_err(failed)?)).collect::<Result<Vec<_>, _>>()?;
            Value::Array(Array::String(items.into_iter().collect()))
        }
        "arr[arr]" => {
            let items: Vec<(String, Bound<'_, PyAny>)> = value.extract().map_err(failed)?;
            let inner = |(kind, item): &(String, Bound<'_, PyAny>)| match metadata_value(kind, item)? {
                Value::Array(array) => Ok(array),
                _ => Err("an item of a nested array is not an array".to_owned()),
            };
            Value::from(items.iter().map(inner).collect::<Result<Vec<_>, String>>()?)
        }
        // Integers and truth values, which JSON holds exactly.
        kind => {
            let json: PyResult<serde_json::Value> = match kind.strip_prefix("arr[") {
                Some("bool]") => value.extract::<Vec<bool>>().map(Into::into),
                Some("u64]") => value.extract::<Vec<u64>>().map(Into::into),
                Some(_) => value.extract::<Vec<i64>>().map(Into::into),
                None if kind == "bool" => value.extract::<bool>().map(Into::into),
                None if kind == "u64" => value.extract::<u64>().map(Into::into),
                None => value.extract::<i64>().map(Into::into),
            };
            value_of(kind, &json.map_err(failed)?)?
        }
    })
}

/// The bytes of a `str`, `bytes` or `bytearray`.
fn text(value: &Bound<'_, PyAny>) -> Result<Vec<u8>, String> {
    if let Ok(text) = value.cast::<PyString>() {
        return text.to_cow().map(|text| text.as_bytes().to_vec()).map_err(|error| error.to_string());
    }
    match value.cast::<PyBytes>() {
        Ok(bytes) => Ok(bytes.as_bytes().to_vec()),
        Err(_) => value.extract::<Vec<u8>>().map_err(|error| error.to_string()),
    }
}

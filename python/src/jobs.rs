//! Conversions.

use std::{
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::Arc,
};

use gguf_toolkit::{
    Job, Memory, MemoryTensor,
    source::{Dtype, Folder},
};
use numpy::PyArray1;
use pyo3::{exceptions::PyValueError, prelude::*, types::PyDict};

use crate::{
    lent::Lent,
    work::{OnStop, Shared, run},
};

/// Settings of all conversions, from keywords.
struct Settings {
    types: Vec<String>,
    threads: Option<NonZeroUsize>,
    imatrix: Option<PathBuf>,
    overwrite: bool,
    allow_requantize: bool,
    model_name: Option<String>,
}

impl Settings {
    fn new(settings: &Bound<'_, PyDict>) -> PyResult<Settings> {
        let get = |key: &str| settings.get_item(key).map(|value| value.filter(|value| !value.is_none()));
        Ok(Settings {
            types: get("types")?.map(|it| it.extract()).transpose()?.unwrap_or_default(),
            threads: get("threads")?.map(|it| it.extract()).transpose()?,
            imatrix: get("imatrix")?.map(|it| it.extract()).transpose()?,
            overwrite: get("overwrite")?.map(|it| it.extract()).transpose()?.unwrap_or_default(),
            allow_requantize: get("allow_requantize")?
                .map(|it| it.extract())
                .transpose()?
                .unwrap_or_default(),
            model_name: get("model_name")?.map(|it| it.extract()).transpose()?,
        })
    }

    fn of<'a>(&self, job: Job<'a>) -> Job<'a> {
        let job = job.threads(self.threads).overwrite(self.overwrite).allow_requantize(self.allow_requantize);
        let job = self.types.iter().fold(job, |job, name| job.file_type(name));
        let job = match &self.imatrix {
            Some(imatrix) => job.imatrix(imatrix),
            None => job,
        };
        match &self.model_name {
            Some(name) => job.model_name(name),
            None => job,
        }
    }
}

fn write(
    py: Python<'_>,
    out: PathBuf,
    settings: Settings,
    progress: Option<Py<PyAny>>,
    job: impl FnOnce() -> Job<'static> + Send + 'static,
) -> PyResult<Vec<PathBuf>> {
    run(py, progress, OnStop::Wait, move |shared: &Shared| {
        let report = |done, total| shared.report(done, total);
        settings.of(job()).progress(&report).cancel(&shared.cancel).write(&out)
    })
}

/// A checkpoint folder to GGUF files.
#[pyfunction]
pub fn convert(
    py: Python<'_>,
    src: PathBuf,
    out: PathBuf,
    settings: &Bound<'_, PyDict>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Vec<PathBuf>> {
    let settings = Settings::new(settings)?;
    run(py, progress, OnStop::Wait, move |shared: &Shared| {
        let address = src.to_str().filter(|src| gguf_toolkit::is_hub_address(src));
        let folder = match address {
            Some(address) => {
                // Next to the output, whose disk must have room anyway.
                let storage = out.ancestors().skip(1).find(|folder| folder.is_dir());
                let storage = storage.unwrap_or(Path::new("."));
                let variable = |name: &str| std::env::var(name).ok();
                gguf_toolkit::hub_folder(address, storage, &variable, Arc::clone(&shared.cancel))?
            }
            None => Folder::at(&src),
        };
        let report = |done, total| shared.report(done, total);
        settings.of(gguf_toolkit::convert(folder)).progress(&report).cancel(&shared.cancel).write(&out)
    })
}

/// A GGUF file to files of other types.
#[pyfunction]
pub fn quantize(
    py: Python<'_>,
    src: PathBuf,
    out: PathBuf,
    settings: &Bound<'_, PyDict>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Vec<PathBuf>> {
    write(py, out, Settings::new(settings)?, progress, move || gguf_toolkit::quantize(src))
}

/// Tensors as Python hands them over: name, dtype as safetensors spells it, shape, bytes.
type Tensors<'py> = Vec<(String, String, Vec<u64>, Bound<'py, PyArray1<u8>>)>;

/// Tensors and small files in memory to GGUF files.
#[pyfunction]
pub fn save(
    py: Python<'_>,
    name: String,
    files: Vec<(String, Vec<u8>)>,
    tensors: Tensors<'_>,
    out: PathBuf,
    settings: &Bound<'_, PyDict>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Vec<PathBuf>> {
    let tensor = |(name, dtype, shape, bytes): (String, String, Vec<u64>, Bound<'_, PyArray1<u8>>)| {
        let Some(dtype) = Dtype::from_name(&dtype) else {
            return Err(PyValueError::new_err(format!("tensor `{name}`: unknown dtype `{dtype}`")));
        };
        Ok(MemoryTensor { name, dtype, shape, bytes: Arc::new(Lent::new(&bytes)?) })
    };
    let tensors = tensors.into_iter().map(tensor).collect::<PyResult<_>>()?;
    let mut memory = Memory::default();
    (memory.name, memory.files, memory.tensors) = (name, files, tensors);
    write(py, out, Settings::new(settings)?, progress, move || gguf_toolkit::save(memory))
}

/// Name, type, bytes, bits a weight, and the tensors' types of each file that a conversion would write.
type Planned = (String, String, u64, f64, Vec<(String, String)>);

/// Plan of [`convert`] or [`quantize`].
#[pyfunction]
pub fn plan(
    py: Python<'_>,
    src: PathBuf,
    is_gguf: bool,
    settings: &Bound<'_, PyDict>,
) -> PyResult<Vec<Planned>> {
    let settings = Settings::new(settings)?;
    let planned = run(py, None, OnStop::Leave, move |_| {
        let job = if is_gguf { gguf_toolkit::quantize(src) } else { gguf_toolkit::convert(&src) };
        settings.of(job).plan()
    })?;
    let tensors = |file: &gguf_toolkit::Planned| {
        file.tensors.iter().map(|(name, dtype)| (name.clone(), dtype.name().to_lowercase())).collect()
    };
    let row = |file: &gguf_toolkit::Planned| {
        let (name, file_type) = (file.name.clone(), file.file_type.to_lowercase());
        (name, file_type, file.n_bytes, file.bits_per_weight, tensors(file))
    };
    Ok(planned.iter().map(row).collect())
}

//! Conversions.

use std::{num::NonZeroUsize, path::PathBuf, sync::Arc};

use gguf_toolkit::{
    Convert, Error, FileType, Memory, MemoryTensor, Quantize, Save,
    convert::{OutputOptions, Report},
    hub::HubOptions,
    settings::TensorOptions,
    source::Dtype,
};
use numpy::PyArray1;
use pyo3::{exceptions::PyValueError, prelude::*, types::PyDict};

use crate::{
    events::Reported,
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

    fn types(&self) -> Result<Vec<FileType>, Error> {
        self.types.iter().map(|name| name.parse()).collect()
    }

    fn tensors(&self) -> TensorOptions {
        TensorOptions { imatrix: self.imatrix.clone(), ..TensorOptions::default() }
    }

    fn output(&self, out: Option<PathBuf>) -> OutputOptions {
        OutputOptions { out, force: self.overwrite, threads: self.threads, ..OutputOptions::default() }
    }

    fn convert(&self, src: PathBuf, out: Option<PathBuf>) -> Result<Convert, Error> {
        let mut convert = Convert::new(src, self.types()?);
        convert.naming.model_name.clone_from(&self.model_name);
        (convert.tensors, convert.output) = (self.tensors(), self.output(out));
        convert.hub = hub_options();
        Ok(convert)
    }

    fn quantize(&self, src: PathBuf, out: Option<PathBuf>) -> Result<Quantize, Error> {
        let mut quantize = Quantize::new(src, self.types()?);
        quantize.allow_requantize = self.allow_requantize;
        (quantize.tensors, quantize.output) = (self.tensors(), self.output(out));
        Ok(quantize)
    }
}

/// Access to the Hub as the environment of the process sets it.
pub fn hub_options() -> HubOptions {
    HubOptions {
        temporary: Some(std::env::temp_dir()),
        ..HubOptions::from_environment(|name| std::env::var(name).ok())
    }
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
        Ok(settings.convert(src, Some(out))?.run(&Reported::new(shared))?.paths())
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
    let settings = Settings::new(settings)?;
    run(py, progress, OnStop::Wait, move |shared: &Shared| {
        Ok(settings.quantize(src, Some(out))?.run(&Reported::new(shared))?.paths())
    })
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
    let settings = Settings::new(settings)?;
    run(py, progress, OnStop::Wait, move |shared: &Shared| {
        let mut save = Save::new(settings.types()?);
        save.naming.model_name.clone_from(&settings.model_name);
        (save.tensors, save.output) = (settings.tensors(), settings.output(Some(out)));
        Ok(save.run(memory, &Reported::new(shared))?.paths())
    })
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
    let planned = run(py, None, OnStop::Leave, move |shared: &Shared| {
        let plan = match is_gguf {
            true => settings.quantize(src, None)?.plan(&Reported::new(shared)),
            false => settings.convert(src, None)?.plan(&Reported::new(shared)),
        };
        Ok::<Report, Error>(plan?.report)
    })?;
    let row = |file: &gguf_toolkit::convert::OutputFile| {
        let name = file.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let tensors = file.tensors.iter();
        let tensors = tensors.map(|tensor| (tensor.name.clone(), tensor.dtype.name().to_lowercase()));
        (name, file.file_type.to_lowercase(), file.n_bytes, file.bits_per_weight, tensors.collect())
    };
    Ok(planned.outputs.iter().map(row).collect())
}

//! Conversions: a checkpoint, a state dict or a GGUF file to GGUF files.

use std::{
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};

use gguf_checkpoint::{Checkpoint, Folder, Memory};
use gguf_container::Model;
use gguf_conversion::{
    CheckpointInput, Conversion, Importance, Input, ModelInput, OutputRequest, Request, RunOptions, Watch,
    imatrix::Imatrix, recipes::Recipe,
};
use gguf_models::Arch;
use gguf_types::DType;

use crate::error::{Cause, Error};

/// Progress callback: bytes of input done and in total, called from any thread.
type Progress<'a> = &'a (dyn Fn(u64, u64) + Sync);

/// A conversion that is being described. Nothing is read before [`Job::plan`] or [`Job::write`].
#[must_use = "a job does nothing until it is written"]
pub struct Job<'a> {
    from: From,
    types: Vec<String>,
    threads: Option<NonZeroUsize>,
    imatrix: Option<PathBuf>,
    overwrite: bool,
    allow_requantize: bool,
    model_name: Option<String>,
    architecture: Option<&'static Arch>,
    progress: Option<Progress<'a>>,
    cancel: Option<&'a AtomicBool>,
}

/// Input of a job.
enum From {
    Folder(Folder),
    Memory(Memory),
    File(PathBuf),
}

/// One file that a job would write.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Planned {
    /// Its name where the output is a folder.
    pub name: String,
    /// The name of its type.
    pub file_type: &'static str,
    /// Its length in bytes.
    pub n_bytes: u64,
    /// Bits stored for each weight, scales included.
    pub bits_per_weight: f64,
    /// Name and type of each tensor, in the order of the file.
    pub tensors: Vec<(String, DType)>,
}

/// Converts a Hugging Face checkpoint folder to GGUF files: `config.json`, weights as safetensors or torch pickles,
/// tokenizer files. A [`Folder`] may also be one whose weights are fetched while they are read ([`gguf_checkpoint::hub`]).
///
/// # Examples
/// ```no_run
/// use std::sync::atomic::{AtomicBool, Ordering};
///
/// # fn main() -> Result<(), gguf_toolkit::Error> {
/// let stop = AtomicBool::new(false);
/// gguf_toolkit::convert("Llama-3.2-1B")
///     .file_type("q4_k_m")
///     .file_type("q8_0")
///     .progress(&|done, total| println!("{} %", 100 * done / total.max(1)))
///     .cancel(&stop)
///     .write("out/")?;
/// # Ok(())
/// # }
/// ```
pub fn convert<'a>(folder: impl Into<Folder>) -> Job<'a> {
    Job::new(From::Folder(folder.into()))
}

/// Converts a state dict that is in memory, with the small files that belong to it. Its bytes are not copied.
pub fn save<'a>(memory: Memory) -> Job<'a> {
    Job::new(From::Memory(memory))
}

/// Converts a GGUF file to files of other types, as `llama-quantize` does.
pub fn quantize<'a>(file: impl AsRef<Path>) -> Job<'a> {
    Job::new(From::File(file.as_ref().to_owned()))
}

impl<'a> Job<'a> {
    fn new(from: From) -> Job<'a> {
        Job {
            from,
            types: Vec::new(),
            threads: None,
            imatrix: None,
            overwrite: false,
            allow_requantize: false,
            model_name: None,
            architecture: None,
            progress: None,
            cancel: None,
        }
    }

    /// One more type to make, by its name in any case; all are made from one read.
    pub fn file_type(mut self, name: &str) -> Job<'a> {
        self.types.push(name.to_owned());
        self
    }

    /// The number of threads; as many as there are cores without this. The bytes do not depend on it.
    pub fn threads(self, threads: Option<NonZeroUsize>) -> Job<'a> {
        Job { threads, ..self }
    }

    /// An importance matrix, in either format.
    pub fn imatrix(self, file: impl AsRef<Path>) -> Job<'a> {
        Job { imatrix: Some(file.as_ref().to_owned()), ..self }
    }

    /// Sets whether an existing output is replaced.
    pub fn overwrite(self, overwrite: bool) -> Job<'a> {
        Job { overwrite, ..self }
    }

    /// Sets whether quantized weights may be quantized again.
    pub fn allow_requantize(self, allow_requantize: bool) -> Job<'a> {
        Job { allow_requantize, ..self }
    }

    /// The model's name, whatever the checkpoint says.
    pub fn model_name(self, name: &str) -> Job<'a> {
        Job { model_name: Some(name.to_owned()), ..self }
    }

    /// The architecture, which need not be one of [`architectures`](crate::architectures): [`gguf_models::DECODER`] with what differs
    /// from it.
    ///
    /// # Examples
    /// ```
    /// use gguf_toolkit::arch::{Arch, Class, DECODER, rules, vocab::Route};
    ///
    /// static MINE: Arch = {
    ///     let mut arch = DECODER;
    ///     arch.name = "mine";
    ///     arch.classes = const { &[Class::new("MineForCausalLM")] };
    ///     arch.tensors = &[rules::DECODER_ENDS, rules::PRE_NORMS, rules::ATTENTION, rules::GATED_MLP];
    ///     arch.vocab = Route::Gpt2;
    ///     arch
    /// };
    /// let job = gguf_toolkit::convert("my-model").architecture(&MINE).file_type("bf16");
    /// ```
    pub fn architecture(self, architecture: &'static Arch) -> Job<'a> {
        Job { architecture: Some(architecture), ..self }
    }

    /// Called with the bytes of input that are done and those that there are, by any thread.
    pub fn progress(self, progress: Progress<'a>) -> Job<'a> {
        Job { progress: Some(progress), ..self }
    }

    /// Stops the run where it becomes true; nothing is left then.
    pub fn cancel(self, cancel: &'a AtomicBool) -> Job<'a> {
        Job { cancel: Some(cancel), ..self }
    }

    /// Plans the outputs. No weight is read.
    ///
    /// # Errors
    /// Problems with the input or the options.
    pub fn plan(self) -> Result<Vec<Planned>, Error> {
        self.run(|conversion, _| {
            let planned = conversion.plan()?;
            let files = planned.files().iter();
            Ok(files
                .map(|file| Planned {
                    name: planned.input().file_name(file),
                    file_type: file.recipe.canonical_name(),
                    n_bytes: file.plan.file_len(),
                    bits_per_weight: file.bits_per_weight(),
                    tensors: file
                        .plan
                        .tensors()
                        .iter()
                        .map(|tensor| (tensor.name.clone(), tensor.dtype))
                        .collect(),
                })
                .collect())
        })
    }

    /// Writes the files and gives their paths. `out` is a file, or a folder where it is one or ends with a separator; a name may
    /// hold `{ftype}`. A file has its name only when it is whole.
    ///
    /// # Errors
    /// An input that cannot be read, invalid options, an output that cannot be written.
    pub fn write(self, out: impl AsRef<Path>) -> Result<Vec<PathBuf>, Error> {
        let out = out.as_ref();
        self.run(|conversion, job| job.write_files(conversion, out))
    }

    fn write_files(
        &self,
        conversion: &Conversion<'_, Box<dyn Input>>,
        out: &Path,
    ) -> Result<Vec<PathBuf>, Cause> {
        let planned = conversion.plan()?;
        let checked = planned.check()?;
        let paths = planned.paths(Some(out))?;
        // A folder that its separator tells is made, as by the command line.
        if let Some(folder) = paths.first().and_then(|path| path.parent()).filter(|folder| *folder == out) {
            std::fs::create_dir_all(folder)?;
        }
        planned.check_paths(&paths, self.overwrite)?;
        let (done, total) = (AtomicU64::new(0), checked.input_bytes());
        let report = |_: &gguf_conversion::Job, bytes: u64| {
            let now = done.fetch_add(bytes, Ordering::Relaxed) + bytes;
            if let Some(progress) = self.progress {
                progress(now, total);
            }
        };
        let never = AtomicBool::new(false);
        let watch = Watch { cancel: self.cancel.unwrap_or(&never), done: &report, sources: &[] };
        let options = RunOptions::default().threads(self.threads);
        checked.write_to(&paths, self.overwrite, &options, watch)?;
        Ok(paths)
    }

    /// Opens the input and what is asked of it, and hands both on.
    fn run<R>(
        mut self,
        work: impl FnOnce(&Conversion<'_, Box<dyn Input>>, &Job<'_>) -> Result<R, Cause>,
    ) -> Result<R, Error> {
        if self.types.is_empty() {
            return Err(Cause::NoType.into());
        }
        let recipes = self.types.iter().map(|name| Recipe::from_name(name));
        let recipes = recipes.collect::<Result<Vec<_>, _>>().map_err(gguf_conversion::Error::Recipe)?;
        let imatrix = self.imatrix.as_deref().map(open_imatrix).transpose()?;
        let imatrix_path = self.imatrix.as_deref().map(Path::to_string_lossy).unwrap_or_default();
        let from = std::mem::replace(&mut self.from, From::Memory(Memory::default()));
        // A folder of the Hub exists as long as its handle.
        let (named, _held) = match &from {
            From::Folder(folder) => (Some(folder.path().to_owned()), Some(folder.clone())),
            From::File(path) => (Some(path.clone()), None),
            From::Memory(_) => (None, None),
        };
        let failed = |cause| match &named {
            Some(path) => Error::at(path, cause),
            None => Error::from(cause),
        };
        let input = self.open(from).map_err(failed)?;
        let mut request = Request::default();
        request.importance =
            imatrix.as_ref().map(|imatrix| Importance { imatrix, path: Some(&imatrix_path) });
        request.allow_requantize = self.allow_requantize;
        let outputs = recipes.into_iter().map(OutputRequest::by_rules);
        let conversion = Conversion::new(input).outputs(outputs).request(request);
        work(&conversion, &self).map_err(failed)
    }

    fn open(&self, from: From) -> Result<Box<dyn Input>, Cause> {
        let mut options = gguf_models::Options::default();
        options.model_name.clone_from(&self.model_name);
        let source_error = |error| Cause::Conversion(gguf_conversion::Error::Source(error));
        let checkpoint: Checkpoint = match from {
            From::File(path) => return Ok(Box::new(ModelInput::new(Model::open(&path)?))),
            // With its own rows a folder is kept from being written to.
            From::Folder(folder) if self.architecture.is_none() => {
                return Ok(Box::new(CheckpointInput::open(folder, &options)?));
            }
            From::Folder(folder) => gguf_checkpoint::open(folder).map_err(source_error)?,
            From::Memory(memory) => gguf_checkpoint::open_memory(memory).map_err(source_error)?,
        };
        let Some(architecture) = self.architecture else {
            return Ok(Box::new(CheckpointInput::from_checkpoint(checkpoint, &options)?));
        };
        let layout =
            gguf_models::resolve_as(&gguf_conversion::arch_input(&checkpoint)?, &options, architecture)
                .map_err(gguf_conversion::Error::Arch)?;
        Ok(Box::new(CheckpointInput::from_layout(checkpoint, layout)))
    }
}

fn open_imatrix(path: &Path) -> Result<Imatrix, Error> {
    let imatrix = Imatrix::open(path).map_err(|error| Error::at(path, error))?;
    imatrix.check_finite().map_err(|error| Error::at(path, error))?;
    Ok(imatrix)
}

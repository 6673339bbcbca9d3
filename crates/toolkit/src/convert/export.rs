//! Export of a GGUF file to a checkpoint folder, or to a safetensors file for an image, video or sound model.

use std::{num::NonZeroUsize, path::PathBuf};

use gguf_container::File;
use gguf_conversion::{
    Watch,
    export::{self, ExportError, ExportOptions, ExportPlan, ImagePlan},
};
use gguf_quant::Level;
use gguf_types::{DType, words};
use serde::{Deserialize, Serialize};

use super::options::{OutputOptions, PlainOptions};
use crate::{
    container_file,
    error::Error,
    events::Events,
    input_kind,
    output_files::warn_of_leftovers,
    table::table,
    text::{human_bytes, printable},
};

/// Export of a GGUF file to a checkpoint folder in the layout of Hugging Face. A file of an image, video or sound model becomes one
/// safetensors file.
///
/// Converting the output back to GGUF with the same type gives the same tensors.
///
/// # Examples
/// ```no_run
/// use gguf_toolkit::Export;
///
/// # fn main() -> Result<(), gguf_toolkit::Error> {
/// let export = Export::new("model-Q8_0.gguf", "folder");
/// println!("{} bytes", export.plan(&())?.bytes);
/// export.run(&())?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Export {
    /// GGUF file, or any shard of a split model.
    #[serde(with = "crate::path_json::one")]
    pub source: PathBuf,
    /// Folder to write, or file for an image, video or sound model.
    #[serde(with = "crate::path_json::one")]
    pub out: PathBuf,
    /// Dtype of the weights: BF16, F16 or F32.
    #[serde(with = "crate::by_name::single")]
    pub dtype: DType,
    /// Limit of a shard in bytes of tensor data.
    pub split_max_size: u64,
    /// Convert NaNs and infinities instead of failing.
    pub allow_nonfinite: bool,
    /// Overwrite an existing folder.
    pub force: bool,
    /// Number of threads. Default: one per core. The output does not depend on it.
    pub threads: Option<NonZeroUsize>,
    /// CPU level of the kernels. Default: the best one of this machine. The output does not depend on it.
    #[serde(with = "crate::by_name::optional")]
    pub level: Option<Level>,
}

impl Default for Export {
    fn default() -> Export {
        Export {
            source: PathBuf::new(),
            out: PathBuf::new(),
            dtype: DType::BF16,
            split_max_size: ExportOptions::default().shard_bytes,
            allow_nonfinite: false,
            force: false,
            threads: None,
            level: None,
        }
    }
}

/// The planned or finished export.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ExportReport {
    /// Path of the input.
    pub input: String,
    /// Path of the folder or file.
    pub output: String,
    /// Name of the dtype of the weights.
    pub dtype: &'static str,
    /// True if the output was only planned.
    pub dry_run: bool,
    /// Length of all files in bytes.
    pub bytes: u64,
    /// The files.
    pub files: Vec<ExportedFile>,
    /// Notes.
    pub notes: Vec<String>,
}

/// A written file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ExportedFile {
    /// Its name.
    pub name: String,
    /// Its length in bytes.
    pub bytes: u64,
    /// Number of its tensors; 0 for files without weights.
    pub tensors: usize,
}

impl ExportReport {
    /// A table of the files.
    pub fn text(&self) -> String {
        let mut rows = vec![["file", "tensors", "bytes"].map(str::to_owned).to_vec()];
        for file in &self.files {
            let tensors = if file.tensors == 0 { String::new() } else { file.tensors.to_string() };
            rows.push(vec![printable(&file.name), tensors, file.bytes.to_string()]);
        }
        let (bytes, size) = (self.bytes, human_bytes(self.bytes));
        format!(
            "{}: {}\n\n{}\ntotal: {bytes} bytes ({size})\n",
            self.output,
            self.dtype,
            table(&rows, &[1, 2])
        )
    }
}

/// The planned output.
enum Planned {
    Folder(ExportPlan),
    Image(ImagePlan),
}

impl Planned {
    fn n_bytes(&self) -> u64 {
        match self {
            Planned::Folder(plan) => plan.n_bytes(),
            Planned::Image(plan) => plan.n_bytes,
        }
    }

    fn notes(&self) -> &[String] {
        match self {
            Planned::Folder(plan) => &plan.layout.notes,
            Planned::Image(plan) => &plan.notes,
        }
    }
}

impl Export {
    /// Export of the file at `source` to `out`, as BF16.
    pub fn new(source: impl Into<PathBuf>, out: impl Into<PathBuf>) -> Export {
        Export { source: source.into(), out: out.into(), ..Export::default() }
    }

    /// Plans the output and writes nothing.
    ///
    /// # Errors
    /// A file that cannot be read, or that cannot be exported.
    pub fn plan(&self, events: &dyn Events) -> Result<ExportReport, Error> {
        let (_, plan) = self.open(events)?;
        Ok(self.report(&plan, true))
    }

    /// Writes the output.
    ///
    /// # Errors
    /// A file that cannot be read or exported, an output that cannot be written, an interruption.
    pub fn run(&self, events: &dyn Events) -> Result<ExportReport, Error> {
        let (file, plan) = self.open(events)?;
        warn_of_leftovers(&self.out, events);
        let encoding = PlainOptions { allow_nonfinite: self.allow_nonfinite, ..PlainOptions::default() };
        let output = OutputOptions { threads: self.threads, level: self.level, ..OutputOptions::default() };
        let options = output.run_options(encoding.nonfinite());
        let cancel = events.cancel();
        let progress = events.progress(export::input_bytes(&file));
        let sources = [file.bytes().clone()];
        let watch = Watch {
            cancel: &cancel,
            done: &|_, bytes| progress.add(bytes),
            sources: &sources,
            ..Watch::default()
        };
        let (source, out, force) = (&self.source, &self.out, self.force);
        let written = match &plan {
            Planned::Folder(plan) => export::write(&file, source, plan, out, force, &options, watch),
            Planned::Image(plan) => export::write_image(&file, source, plan, out, force, &options, watch),
        };
        drop(progress);
        written.map_err(|error| self.failed(error))?;
        let n_bytes = plan.n_bytes();
        events.status(format!("wrote {}: {n_bytes} bytes ({})", self.out.display(), human_bytes(n_bytes)));
        Ok(self.report(&plan, false))
    }

    fn open(&self, events: &dyn Events) -> Result<(File, Planned), Error> {
        if !self.dtype.is_float() {
            return Err(Error::usage(format_args!("expected f32, f16 or bf16, found {}", self.dtype.name())));
        }
        let file = container_file::open(&self.source)?;
        let families = &gguf_models::FAMILIES;
        let plan = if input_kind::is_image_model(file.metadata(), file.tensors()) {
            self.check_image()?;
            export::plan_image(families, &file, self.dtype).map(Planned::Image)
        } else {
            input_kind::check_language_model(&self.source)?;
            let options = ExportOptions { dtype: self.dtype, shard_bytes: self.split_max_size };
            export::plan(families, &file, &options).map(Planned::Folder)
        };
        let plan = plan.map_err(|error| self.failed(error))?;
        plan.notes().iter().for_each(|note| events.note(note));
        Ok((file, plan))
    }

    /// Checks the options for an image, video or sound model.
    fn check_image(&self) -> Result<(), Error> {
        input_kind::check_model(&self.source)?;
        if self.split_max_size != Export::default().split_max_size {
            return Err(Error::usage(words!(
                "[-split-max-size] cannot be used with an image or video model, which is exported to one file"
            )));
        }
        if self.out.extension().is_none_or(|extension| extension != "safetensors") {
            return Err(Error::at(&self.out, "expected a file name that ends in .safetensors")
                .hint(["image and video models are exported to one file"]));
        }
        Ok(())
    }

    fn failed(&self, error: ExportError) -> Error {
        match error {
            // Problems inside the input. All others name their path.
            ExportError::Layout(_)
            | ExportError::Convert(
                gguf_conversion::Error::NonFinite { .. } | gguf_conversion::Error::Overflow { .. },
            ) => Error::at(&self.source, error),
            error => Error::new(error),
        }
    }

    fn report(&self, plan: &Planned, dry_run: bool) -> ExportReport {
        let file = |name: &str, bytes, tensors| ExportedFile { name: name.to_owned(), bytes, tensors };
        let files = match plan {
            Planned::Folder(plan) => {
                let small = plan.layout.files.iter().map(|(name, bytes)| file(name, bytes.len() as u64, 0));
                let weights =
                    plan.shards.iter().map(|shard| file(&shard.file, shard.n_bytes, shard.tensors.len()));
                small.chain(weights).collect()
            }
            Planned::Image(plan) => {
                let name = self.out.file_name().unwrap_or_default().to_string_lossy();
                vec![file(&name, plan.n_bytes, plan.n_tensors())]
            }
        };
        ExportReport {
            input: self.source.display().to_string(),
            output: self.out.display().to_string(),
            dtype: self.dtype.name(),
            dry_run,
            bytes: plan.n_bytes(),
            files,
            notes: plan.notes().to_vec(),
        }
    }
}

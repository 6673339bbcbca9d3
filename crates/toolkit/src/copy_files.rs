//! Files whose tensors are copies of those of other files: plan, check, write.

use std::path::{Path, PathBuf};

use gguf_container::{CopyPlan, Model, write_copies};
use serde::Serialize;

use crate::{
    error::Error,
    events::Events,
    input_kind::{self, Wanted},
    output_files::warn_of_leftovers,
    outputs::check_outputs,
    text::human_bytes,
};

/// Opens a model in one file or in several.
///
/// # Errors
/// A file that cannot be read.
pub fn open_model(path: &Path) -> Result<Model, Error> {
    input_kind::check_joined(path)?;
    Model::open(path).map_err(|error| Error::at(path, error).hint(input_kind::advice(path, Wanted::Gguf)))
}

/// Planned copies of a model, before a byte is written.
#[derive(Debug)]
pub struct Copies {
    source: PathBuf,
    model: Model,
    plans: Vec<CopyPlan>,
    paths: Vec<PathBuf>,
}

/// Files that were written, or would be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Copied {
    /// False for a dry run.
    pub written: bool,
    /// Each file.
    pub files: Vec<CopiedFile>,
}

/// One file of [`Copied`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CopiedFile {
    /// Its path.
    #[serde(rename = "file")]
    pub path: String,
    /// Number of tensors.
    pub tensors: usize,
    /// Length in bytes.
    pub file_bytes: u64,
}

impl Copied {
    /// A line for each file.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        let verb = if self.written { "wrote" } else { "would write" };
        self.files.iter().map(move |file| {
            format!("{verb} {}: {} tensors, {}", file.path, file.tensors, human_bytes(file.file_bytes))
        })
    }
}

impl Copies {
    /// Copies of `model`, which was opened at `source`. `outputs` names as many files as there are plans.
    pub(crate) fn new(
        source: &Path,
        model: Model,
        plan: impl FnOnce(&Model) -> Result<Vec<CopyPlan>, gguf_container::Error>,
        outputs: impl FnOnce(usize) -> Vec<PathBuf>,
    ) -> Result<Copies, Error> {
        let plans = plan(&model).map_err(|error| Error::at(source, error))?;
        let paths = outputs(plans.len());
        Ok(Copies { source: source.to_owned(), model, plans, paths })
    }

    /// The files that are to be written, with their lengths.
    pub fn files(&self) -> Vec<CopiedFile> {
        let file = |(plan, path): (&CopyPlan, &PathBuf)| CopiedFile {
            path: path.display().to_string(),
            tensors: plan.plan.tensors().len(),
            file_bytes: plan.plan.file_len(),
        };
        self.plans.iter().zip(&self.paths).map(file).collect()
    }

    /// Writes the files; with `dry_run`, only checks that they can be written.
    ///
    /// # Errors
    /// An output that cannot be written; an interruption.
    pub fn run(&self, Overwrite { force, dry_run }: Overwrite, events: &dyn Events) -> Result<Copied, Error> {
        let inputs: Vec<&PathBuf> = self.model.shards().iter().map(|(path, _)| path).collect();
        check_outputs(&self.paths, &inputs, force || dry_run)?;
        if !dry_run {
            self.paths.iter().for_each(|path| warn_of_leftovers(path, events));
            let cancel = events.cancel();
            let progress = events.progress(self.plans.iter().map(|plan| plan.plan.tensor_bytes()).sum());
            let done = |bytes| progress.add(bytes);
            let written = write_copies(&self.plans, &self.paths, &self.model, force, &cancel, &done);
            drop(progress);
            written.map_err(|error| Error::at(&self.source, error))?;
        }
        Ok(Copied { written: !dry_run, files: self.files() })
    }
}

/// Treatment of existing outputs.
#[derive(Debug, Clone, Copy, Default)]
pub struct Overwrite {
    /// Replace existing files.
    pub force: bool,
    /// Write nothing.
    pub dry_run: bool,
}

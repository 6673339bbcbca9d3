//! Copies tensors to other files.

use std::path::{Path, PathBuf};

use gguf_container::{CopyPlan, Model, write_copies};
use serde::Serialize;

use crate::{
    error::Error,
    events::Events,
    input_kind::{self, Wanted},
    outputs::check_outputs,
    text::human_bytes,
    write::warn_of_leftovers,
};

/// Opens a model in one file or in several.
///
/// # Errors
/// A file that cannot be read.
pub fn open_model(path: &Path) -> Result<Model, Error> {
    Model::open(path).map_err(|error| Error::at(path, error).hint(input_kind::advice(path, Wanted::Gguf)))
}

/// Files that were written, or would be.
#[derive(Debug, Serialize)]
pub struct Copied {
    /// False for a dry run.
    pub written: bool,
    /// Each file.
    pub files: Vec<CopiedFile>,
}

/// One file of [`Copied`].
#[derive(Debug, Serialize)]
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

/// Writes planned files, unless `dry_run`.
///
/// # Errors
/// An output that cannot be written; an interruption.
pub fn copy(
    path: &Path,
    model: &Model,
    plans: Result<Vec<CopyPlan>, gguf_container::Error>,
    outputs: impl FnOnce(usize) -> Vec<PathBuf>,
    Overwrite { force, dry_run }: Overwrite,
    events: &dyn Events,
) -> Result<Copied, Error> {
    let plans = plans.map_err(|error| Error::at(path, error))?;
    let paths = outputs(plans.len());
    let inputs: Vec<&PathBuf> = model.shards().iter().map(|(path, _)| path).collect();
    check_outputs(&paths, &inputs, force || dry_run)?;
    if !dry_run {
        paths.iter().for_each(|path| warn_of_leftovers(path, events));
        let cancel = events.cancel();
        let progress = events.progress(plans.iter().map(CopyPlan::data_bytes).sum());
        let written = write_copies(&plans, &paths, model, force, &cancel, &|bytes| progress.add(bytes));
        drop(progress);
        written.map_err(|error| Error::at(path, error))?;
    }
    let file = |(plan, path): (&CopyPlan, &PathBuf)| CopiedFile {
        path: path.display().to_string(),
        tensors: plan.plan.tensors().len(),
        file_bytes: plan.plan.file_len(),
    };
    Ok(Copied { written: !dry_run, files: plans.iter().zip(&paths).map(file).collect() })
}

/// Treatment of existing outputs.
#[derive(Debug, Clone, Copy, Default)]
pub struct Overwrite {
    /// Replace existing files.
    pub force: bool,
    /// Write nothing.
    pub dry_run: bool,
}

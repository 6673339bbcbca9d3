//! Common code of the verbs that copy tensors to other files.

use std::path::{Path, PathBuf};

use clap::Args;
use gguf::{CopyPlan, Model, write_copies};
use serde_json::json;

use super::{
    input_kind::{self, Wanted},
    outputs::check_outputs,
    write::warn_of_leftovers,
};
use crate::{
    failure::{EXIT_INTERRUPTED, Failure},
    hints,
    ui::{Ui, cancel_on_interrupt, human_bytes},
};

/// Options of the verbs that copy tensors to other files.
#[derive(Debug, Args)]
pub struct CopyArgs {
    /// Overwrite existing outputs.
    #[arg(long)]
    pub force: bool,
    /// Show what would be written, without writing.
    #[arg(long)]
    pub dry_run: bool,
    /// Print the result as JSON.
    #[arg(long)]
    pub json: bool,
    /// Print only errors.
    #[arg(short, long)]
    pub quiet: bool,
}

/// Opens a model in one file or in several.
///
/// # Errors
/// What is wrong with it, with its path and advice.
pub fn open_model(path: &Path) -> Result<Model, Failure> {
    Model::open(path).map_err(|error| gguf_failure(path, error).hint(input_kind::advice(path, Wanted::Gguf)))
}

/// An error with advice, and with the path of the file unless it names one itself.
pub fn gguf_failure(path: &Path, error: gguf::Error) -> Failure {
    let hint = hints::gguf(&error);
    match error {
        gguf::Error::Interrupted => Failure { code: EXIT_INTERRUPTED, ..Failure::new(error) },
        // These carry a path.
        gguf::Error::Io { .. }
        | gguf::Error::Exists { .. }
        | gguf::Error::NotAFile { .. }
        | gguf::Error::DeadLink { .. }
        | gguf::Error::Changed { .. }
        | gguf::Error::UnfinishedEdit { .. }
        | gguf::Error::Length { .. }
        | gguf::Error::Shard { .. }
        | gguf::Error::ShardMissing { .. }
        | gguf::Error::ShardName { .. } => Failure::new(error),
        error => Failure::at(path, error),
    }
    .hint(hint)
}

/// Writes planned files, or says what they would be.
///
/// # Errors
/// What is in the way of an output, what the disk says, an interruption.
pub fn copy(
    path: &Path,
    model: &Model,
    plans: Result<Vec<CopyPlan>, gguf::Error>,
    outputs: impl FnOnce(usize) -> Vec<PathBuf>,
    args: &CopyArgs,
    ui: &Ui,
) -> Result<(), Failure> {
    let plans = plans.map_err(|error| gguf_failure(path, error))?;
    let paths = outputs(plans.len());
    let inputs: Vec<&PathBuf> = model.shards().iter().map(|(path, _)| path).collect();
    check_outputs(&paths, &inputs, args.force || args.dry_run)?;
    if !args.dry_run {
        paths.iter().for_each(|path| warn_of_leftovers(path, ui));
        let cancel = cancel_on_interrupt();
        let progress = ui.progress(plans.iter().map(CopyPlan::data_bytes).sum());
        let written = write_copies(&plans, &paths, model, args.force, &cancel, &|bytes| progress.add(bytes));
        drop(progress);
        written.map_err(|error| gguf_failure(path, error))?;
    }
    let files = plans.iter().zip(&paths);
    if args.json {
        let file = |(plan, path): (&CopyPlan, &PathBuf)| {
            json!({
                "file": path.display().to_string(),
                "tensors": plan.plan.tensors().len(),
                "file_bytes": plan.plan.file_len(),
            })
        };
        let report = json!({"written": !args.dry_run, "files": files.map(file).collect::<Vec<_>>()});
        return ui.data(&format!("{report}\n"));
    }
    for (plan, path) in files {
        let what = if args.dry_run { "would write" } else { "wrote" };
        let (n_tensors, n_bytes) = (plan.plan.tensors().len(), plan.plan.file_len());
        let line = format!("{what} {}: {n_tensors} tensors, {}", path.display(), human_bytes(n_bytes));
        // Findings of a dry run are its result.
        match args.dry_run {
            true => ui.data(&(line + "\n"))?,
            false => ui.status(&line),
        }
    }
    Ok(())
}

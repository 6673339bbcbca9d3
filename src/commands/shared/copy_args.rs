//! Options and output of the verbs that copy tensors to other files.

use std::path::{Path, PathBuf};

use clap::Args;
use gguf_container::{CopyPlan, Model};
use gguf_toolkit::copy_files::{self, Overwrite};

use crate::{failure::Failure, ui::Ui};

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

/// Writes planned files, or lists them for a dry run.
///
/// # Errors
/// As [`copy_files::copy`].
pub fn copy(
    path: &Path,
    model: &Model,
    plans: Result<Vec<CopyPlan>, gguf_container::Error>,
    outputs: impl FnOnce(usize) -> Vec<PathBuf>,
    args: &CopyArgs,
    ui: &Ui,
) -> Result<(), Failure> {
    let overwrite = Overwrite { force: args.force, dry_run: args.dry_run };
    let copied = copy_files::copy(path, model, plans, outputs, overwrite, ui)?;
    if args.json {
        let json = serde_json::to_string(&copied).map_err(Failure::new)?;
        return ui.data(&(json + "\n"));
    }
    for line in copied.lines() {
        // Findings of a dry run are its result.
        match args.dry_run {
            true => ui.data(&(line + "\n"))?,
            false => ui.status(&line),
        }
    }
    Ok(())
}

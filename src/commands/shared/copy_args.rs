//! Options and output of the verbs that copy tensors to other files.

use clap::Args;
use gguf_toolkit::copy_files::Copied;

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

impl CopyArgs {
    /// Prints the files that were written, or would be.
    ///
    /// # Errors
    /// stdout cannot be written.
    pub fn print(&self, copied: &Copied, ui: &Ui) -> Result<(), Failure> {
        if self.json {
            return ui.json_line(copied);
        }
        for line in copied.lines() {
            // Findings of a dry run are its result.
            if self.dry_run { ui.data(&(line + "\n"))? } else { ui.status(&line) }
        }
        Ok(())
    }
}

//! Options and output of the verbs that edit metadata.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use gguf_container::Metadata;
use gguf_toolkit::edit::{EditOptions, Edited, edit as edit_file};

use super::tensor_args::output_parser;
use crate::{failure::Failure, ui::Ui};

/// Options of the verbs that edit metadata.
#[derive(Debug, Args)]
pub struct EditArgs {
    /// GGUF file, or the first shard of a split model.
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// Write the result to FILE.
    ///
    /// Without it, the input itself is changed.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath, value_parser = output_parser())]
    pub output: Option<PathBuf>,
    /// Overwrite existing outputs.
    #[arg(long, requires = "output")]
    pub force: bool,
    /// Reserve BYTES of free space in the header.
    ///
    /// Later changes that fit are made in place, without rewriting the file. 0 removes the space. By default the space that the
    /// file has is used.
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(..=1 << 30))]
    pub header_slack: Option<u64>,
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

impl EditArgs {
    /// The options for the toolkit.
    pub fn options(&self) -> EditOptions {
        EditOptions {
            file: self.file.clone(),
            output: self.output.clone(),
            force: self.force,
            header_slack: self.header_slack,
            dry_run: self.dry_run,
        }
    }
}

/// Changes the metadata of a file, and prints the changes.
///
/// # Errors
/// As [`edit_file`].
pub fn edit(
    args: &EditArgs,
    ui: &Ui,
    change: impl FnOnce(&mut Metadata) -> Result<(), Failure>,
) -> Result<(), Failure> {
    print(edit_file(&args.options(), ui, change)?, args.json, ui)
}

/// Prints the changes of a file.
///
/// # Errors
/// stdout cannot be written.
pub fn print(edited: Edited, json: bool, ui: &Ui) -> Result<(), Failure> {
    if json {
        return ui.data(&format!("{}\n", edited.json));
    }
    ui.data(&edited.lines.concat())?;
    ui.status(&edited.summary);
    Ok(())
}

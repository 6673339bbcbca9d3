//! Options and output of the verbs that edit metadata.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use gguf_toolkit::{
    arguments::output_path,
    edit::{EditOptions, edit},
};

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
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath, value_parser = output_path())]
    pub output: Option<PathBuf>,
    /// Overwrite existing outputs.
    ///
    /// Also writes values that `gguf-inspect verify` calls an error.
    #[arg(long)]
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
    /// Applies the changes of `options` to the file of these arguments, and prints them.
    ///
    /// # Errors
    /// As [`edit`]; stdout cannot be written.
    pub fn run(self, options: EditOptions, ui: &Ui) -> Result<(), Failure> {
        let EditArgs { file, output, force, header_slack, dry_run, json, .. } = self;
        let edited = edit(&EditOptions { file, output, force, header_slack, dry_run, ..options }, ui)?;
        if json {
            return ui.json_line(&edited);
        }
        ui.data(&edited.lines().concat())?;
        ui.status(&edited.summary());
        Ok(())
    }
}

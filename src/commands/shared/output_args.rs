//! Options of the commands that write models.

use std::{num::NonZeroUsize, path::PathBuf};

use clap::Args;
use gguf_toolkit::convert::OutputOptions;

use super::{conversion::Format, cpu_level::cpu_level, threads::parse_threads};
use crate::failure::Failure;

/// Options about what is written and printed.
#[derive(Debug, Args)]
pub struct OutputArgs {
    /// Show what would be written, without writing.
    ///
    /// Lists each output with its size. If weights are converted or quantized, also lists each tensor with its type
    /// and the reason for that type.
    #[arg(long)]
    pub dry_run: bool,
    /// Overwrite existing outputs.
    ///
    /// Also discards an interrupted run.
    #[arg(long)]
    pub force: bool,
    /// Print the result as JSON.
    #[arg(long, hide_short_help = true)]
    pub json: bool,
    /// Print only errors.
    #[arg(short, long)]
    pub quiet: bool,
    /// Print more details.
    #[arg(short, long, hide_short_help = true)]
    pub verbose: bool,
}

/// Options of conversions that plan tensors and can be interrupted.
#[derive(Debug, Args)]
pub struct ResumeArgs {
    /// Do not print the list of tensors of a dry run.
    #[arg(long, conflicts_with = "json", hide_short_help = true)]
    pub no_tensors: bool,
    /// Resume an interrupted run.
    ///
    /// Data that was already written is verified first. The result is byte-identical to that of an uninterrupted run.
    /// If there is no interrupted run, a new run starts. Finished outputs of the same options are kept.
    #[arg(long, conflicts_with = "dry_run", hide_short_help = true)]
    pub resume: bool,
    /// Use N threads.
    ///
    /// Default: one per core. The output does not depend on the number of threads.
    #[arg(short = 'j', long, value_name = "N", value_parser = parse_threads)]
    pub threads: Option<NonZeroUsize>,
}

impl OutputArgs {
    /// The options for the toolkit.
    ///
    /// # Errors
    /// A CPU level that cannot be used.
    pub fn options(&self, out: Option<PathBuf>, resume: &ResumeArgs) -> Result<OutputOptions, Failure> {
        Ok(OutputOptions {
            out,
            force: self.force,
            resume: resume.resume,
            resumable: true,
            threads: resume.threads,
            level: Some(cpu_level()?),
        })
    }

    /// Format of the printed result.
    pub fn format(&self, resume: &ResumeArgs) -> Format {
        Format { json: self.json, dry_run: self.dry_run, no_tensors: resume.no_tensors }
    }
}

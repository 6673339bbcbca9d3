//! Output of conversions.

use gguf_toolkit::convert::Outcome;

use crate::{failure::Failure, ui::Ui};

/// Format of the printed result.
#[derive(Debug, Clone, Copy)]
pub struct Format {
    /// As JSON.
    pub json: bool,
    /// True if only the plan is printed.
    pub dry_run: bool,
    /// Without the list of tensors.
    pub no_tensors: bool,
}

/// Prints the result of a run.
///
/// # Errors
/// A dry run whose files cannot be written.
pub fn print(outcome: Outcome, format: Format, ui: &Ui) -> Result<(), Failure> {
    let Outcome { report, problem } = outcome;
    if let Some(report) = report {
        if format.json {
            ui.data(&report.json()?)?;
        } else if format.dry_run {
            ui.data(&report.text(!format.no_tensors))?;
        }
    }
    problem.map_or(Ok(()), Err)
}

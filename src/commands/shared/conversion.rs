//! A conversion that a call asks for.

use std::path::Path;

use clap::ArgMatches;
use gguf_toolkit::{
    Cause, Recipe,
    call::Call,
    convert::{Caller, Operation, Outcome, Planned},
};

use crate::{failure::Failure, ui::Ui};

/// A function that reads the conversion of a call.
pub type ReadConversion = fn(&ArgMatches) -> Result<Conversion, Failure>;

/// A conversion of a call.
#[derive(Debug)]
pub struct Conversion {
    /// The conversion with its options.
    pub operation: Operation,
    /// Identity of the call.
    pub call: Call,
    /// Format of the printed result.
    pub format: Format,
}

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

impl Conversion {
    /// Runs the conversion and prints its result.
    ///
    /// # Errors
    /// Invalid options, an input that cannot be read, an output that cannot be written, an interruption.
    pub fn run(self, ui: &Ui) -> Result<(), Failure> {
        let Conversion { operation, call, format } = self;
        let outcome = operation.run_for(Caller::new(call, format.dry_run), ui);
        let Outcome { report, problem } = outcome.map_err(|failure| advise(failure, &operation))?;
        if let Some(report) = report {
            if format.json {
                ui.data(&report.json()?)?;
            } else if format.dry_run {
                ui.data(&report.text(!format.no_tensors))?;
            }
        }
        problem.map_or(Ok(()), Err)
    }

    /// Writes a plan of the conversion.
    ///
    /// # Errors
    /// As [`Conversion::run`].
    pub fn save(self, plan: &Path, ui: &Ui) -> Result<(), Failure> {
        let Conversion { operation, call, .. } = self;
        Planned::save_for(call, plan, &operation, ui).map_err(|failure| advise(failure, &operation))
    }
}

/// Adds advice to the failure of a missing type.
fn advise(failure: Failure, operation: &Operation) -> Failure {
    if !matches!(failure.cause(), Cause::NoType) {
        return failure;
    }
    // The second argument of `gguf-quantize` may be a type, but here it is the output.
    let out = operation.output().out.as_deref().and_then(Path::to_str);
    let hint = out
        .filter(|out| Recipe::from_name(out).is_ok())
        .map(|name| format!("`{name}` was treated as the output; to set the type, use `--type {name}`"));
    Failure::usage("missing --type, for example q4_k_m or bf16")
        .hint(hint)
        .hint(["`--type auto` keeps the type of a 16-bit checkpoint; `--help` lists the types"])
}

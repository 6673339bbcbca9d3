//! A conversion that a call asks for.

use std::path::Path;

use clap::ArgMatches;
use gguf_toolkit::{
    Cause, Recipe,
    call::Call,
    convert::{Caller, Operation, Outcome, Planned},
};

use super::call::program;
use crate::{failure::Failure, ui::Ui};

/// A function that reads the conversion of a call.
pub type ReadConversion = fn(&ArgMatches) -> Result<Conversion, Failure>;

/// A conversion of a call.
#[derive(Debug)]
pub struct Conversion {
    /// The conversion with its options.
    pub operation: Operation,
    /// Name of the binary that was called.
    pub binary: &'static str,
    /// Name of the verb, if there is one.
    pub verb: Option<&'static str>,
    /// Format of the printed result.
    pub format: Format,
    /// Notes about the call.
    pub notes: Vec<String>,
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
    /// Identity of the call.
    ///
    /// # Errors
    /// Options that have no JSON form.
    pub fn call(&self) -> Result<Call, Failure> {
        let verb = self.verb.map(|verb| ("command".to_owned(), verb.to_owned()));
        let mut options = self.operation.call()?.options;
        if let (Operation::Quantize(_), Some(types)) =
            (&self.operation, options.iter_mut().find(|(name, _)| name == "--type"))
        {
            // `gguf-quantize` takes the types as its argument TYPE.
            *types = ("TYPE".to_owned(), types.1.to_ascii_uppercase());
        }
        let options = verb.into_iter().chain(options).collect();
        Ok(Call { options, ..program(self.binary) })
    }

    /// Runs the conversion and prints its result.
    ///
    /// # Errors
    /// Invalid options, an input that cannot be read, an output that cannot be written, an interruption.
    pub fn run(self, ui: &Ui) -> Result<(), Failure> {
        let (call, Conversion { operation, format, notes, .. }) = (self.call()?, self);
        notes.iter().for_each(|note| ui.note(note));
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
        let operation = &self.operation;
        Planned::save_for(self.call()?, plan, operation, ui).map_err(|failure| advise(failure, operation))
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

//! Values that every conversion passes on: the open input, the requested files, the caller, the outcome.

use std::path::{Path, PathBuf};

use gguf_container::PartNumber;
use gguf_conversion::{NonFinite, Repacked, RunOptions, parts::Place, recipes::Recipe};
use serde::Serialize;
use serde_json::Value;

use super::{options::OutputOptions, plan_file::PlanFile, report::Report};
use crate::{calibration::Calibration, call::Call, error::Error, layout_notes::Notes, settings::Settings};

/// Caller of a conversion: its identity, and the work that it asks for.
#[derive(Debug, Clone)]
pub struct Caller<'a> {
    /// Identity of the call, for journals and plans.
    pub call: Call,
    /// Plan and report, but write nothing except a requested recipe file.
    pub dry_run: bool,
    /// The part of the conversion to execute.
    pub(crate) parts: Parts<'a>,
}

impl Caller<'static> {
    /// Caller of a whole conversion or, with `dry_run`, of its plan only.
    pub fn new(call: Call, dry_run: bool) -> Caller<'static> {
        Caller { call, dry_run, parts: Parts::Whole }
    }

    /// A program that uses the library, identified by its options.
    ///
    /// # Errors
    /// Options that have no JSON form.
    pub fn library(options: &(impl Serialize + Default)) -> Result<Caller<'static>, Error> {
        Ok(Caller::new(Call::of_options(options)?, false))
    }

    /// The same, for a plan.
    ///
    /// # Errors
    /// As [`Caller::library`].
    pub fn planning(options: &(impl Serialize + Default)) -> Result<Caller<'static>, Error> {
        Ok(Caller { dry_run: true, ..Caller::library(options)? })
    }
}

/// The part of a conversion to execute.
#[derive(Debug, Clone, Copy)]
pub enum Parts<'a> {
    /// The whole conversion at once.
    Whole,
    /// Writes a plan of it.
    Plan(NewPlan<'a>),
    /// One part of a plan.
    Part {
        /// The plan.
        plan: OpenPlan<'a>,
        /// The number of the part.
        number: PartNumber,
        /// The file that it writes to.
        place: Place,
    },
    /// The output, assembled from all parts of a plan.
    Assembly(OpenPlan<'a>),
}

impl Parts<'_> {
    /// True for the whole conversion at once.
    pub fn is_whole(&self) -> bool {
        matches!(self, Parts::Whole)
    }
}

/// A plan to write.
#[derive(Debug, Clone, Copy)]
pub struct NewPlan<'a> {
    /// Path of the plan.
    pub path: &'a Path,
    /// The folder that relative paths of the conversion start from.
    pub folder: &'a Path,
    /// The JSON form of the conversion, which the plan stores.
    pub conversion: &'a Value,
}

/// A plan that was read.
#[derive(Debug, Clone, Copy)]
pub struct OpenPlan<'a> {
    /// Its contents.
    pub file: &'a PlanFile,
    /// Its path.
    pub path: &'a Path,
}

/// An open input, with the facts for a report.
#[derive(Debug)]
pub struct OpenInput<'a, I> {
    /// The input.
    pub input: I,
    /// Its path.
    pub path: &'a Path,
    /// Its files, which must not be overwritten.
    pub files: Vec<PathBuf>,
    /// Its format.
    pub format: &'static str,
    /// Architecture of the model.
    pub architecture: String,
    /// Notes and warnings to print.
    pub notes: Notes,
    /// Tensors that have no place in the output.
    pub dropped: Vec<gguf_layout::Dropped>,
    /// Stored format of the source of each tensor.
    pub stored_as: Vec<String>,
    /// Outcome of repacking for each tensor; empty if it was not requested.
    pub repacked: Vec<Repacked>,
}

/// Files to make from an input.
#[derive(Debug, Clone)]
pub struct Requested<'a> {
    /// The file types; none if a recipe file states them.
    pub recipes: Vec<&'static Recipe>,
    /// File type of the projector, if there is one.
    pub projector: Option<&'static Recipe>,
    /// Settings of all files.
    pub settings: &'a Settings,
    /// The calibration that improves the blocks, if there is one.
    pub calibration: Option<&'a Calibration>,
}

impl<'a> Requested<'a> {
    /// Files of these types.
    pub fn new(recipes: Vec<&'static Recipe>, settings: &'a Settings) -> Requested<'a> {
        Requested { recipes, projector: None, settings, calibration: None }
    }
}

/// Arguments of a run other than the types.
#[derive(Debug, Clone)]
pub struct RunArgs<'a> {
    /// The output, if one was named.
    pub out: Option<&'a Path>,
    /// Replace existing files.
    pub force: bool,
    /// Resume an interrupted run.
    pub resume: bool,
    /// Keep an interrupted run, so that it can be resumed.
    pub resumable: bool,
    /// Plan, report, write nothing.
    pub dry_run: bool,
    /// True if importance is gathered from texts before the run; a dry run has none yet.
    pub gathers: bool,
    /// Threads and other options of the library.
    pub options: RunOptions,
    /// Identity of the call.
    pub call: Call,
    /// The part of the conversion to execute.
    pub parts: Parts<'a>,
}

impl<'a> RunArgs<'a> {
    /// Arguments for these options.
    pub fn new(output: &'a OutputOptions, nonfinite: NonFinite, caller: Caller<'a>) -> RunArgs<'a> {
        let Caller { call, parts, dry_run } = caller;
        RunArgs {
            out: output.out.as_deref(),
            force: output.force,
            resume: output.resume,
            resumable: output.resumable || output.resume,
            dry_run,
            gathers: false,
            options: output.run_options(nonfinite),
            call,
            parts,
        }
    }
}

/// Result of a run for a [`Caller`].
#[derive(Debug, Default)]
pub struct Outcome {
    /// The files; none if a plan or a part was written.
    pub report: Option<Report>,
    /// Reason why a dry run's files cannot be written.
    pub problem: Option<Error>,
}

/// Plan of a conversion.
#[derive(Debug)]
pub struct Plan {
    /// The files with all their tensors.
    pub report: Report,
    /// Reason why the files cannot be written, for example missing importance data.
    pub problem: Option<Error>,
}

impl Outcome {
    /// The outcome of a dry run as a plan.
    ///
    /// # Errors
    /// The run had no report.
    pub fn plan(self) -> Result<Plan, Error> {
        let Outcome { report, problem } = self;
        Ok(Plan { report: report.ok_or_else(no_report)?, problem })
    }

    /// The report of a whole run.
    ///
    /// # Errors
    /// The run had no report, or its files cannot be written.
    pub fn written(self) -> Result<Report, Error> {
        let plan = self.plan()?;
        match plan.problem {
            Some(problem) => Err(problem),
            None => Ok(plan.report),
        }
    }
}

fn no_report() -> Error {
    Error::new("a part of a conversion has no report")
}

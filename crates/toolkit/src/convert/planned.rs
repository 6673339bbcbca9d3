//! Conversions in parts: a plan that is saved once, and executed by any number of processes.

use std::{
    fs,
    num::NonZeroUsize,
    path::{Path, PathBuf, absolute},
};

use gguf_container::PartNumber;
use gguf_conversion::parts::Place;
use gguf_quant::Level;
use serde::{Deserialize, Serialize};

use super::{
    operation::{Operation, ProcessOptions},
    options::OutputOptions,
    plan_file::PlanFile,
    report::Report,
    run_args::{Caller, NewPlan, OpenPlan, Outcome, Parts},
};
use crate::{call::Call, error::Error, events::Events, hub::HubOptions, text_file};

/// A plan of a conversion, whose parts run in other processes or on other machines.
///
/// A plan fixes the options, the inputs and the position of every tensor in the output. A process executes it with the
/// same program and the same inputs. The assembled files equal those of a single run.
///
/// # Examples
/// ```no_run
/// use std::path::Path;
///
/// use gguf_toolkit::{
///     Convert, FileType, PartNumber, Place,
///     convert::{Planned, WorkerOptions},
/// };
///
/// # fn main() -> Result<(), gguf_toolkit::Error> {
/// let mut convert = Convert::new("Llama-3.2-1B", [FileType::Q4_K_M]);
/// convert.output.out = Some("llama-q4_k_m.gguf".into());
/// Planned::save(Path::new("plan.json"), convert, &())?;
///
/// // Each of these may be a process of its own.
/// let (plan, worker) = (Planned::open("plan.json")?, WorkerOptions::default());
/// for number in (1..=2).filter_map(|number| PartNumber::new(number, 2)) {
///     plan.part(number, Place::Shared, &worker, &())?;
/// }
/// let report = plan.assemble(&worker, &())?;
/// println!("{:?}", report.paths());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Planned {
    path: PathBuf,
    file: PlanFile,
    operation: Operation,
    /// Identity of the program that executes the plan.
    program: Call,
}

/// Settings of a process that executes a plan. The plan does not hold them.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WorkerOptions {
    /// Convert a part again, or overwrite existing outputs.
    pub force: bool,
    /// Number of threads. Default: one per core. The output does not depend on it.
    pub threads: Option<NonZeroUsize>,
    /// CPU level of the kernels. Default: the best one of this machine. The output does not depend on it.
    #[serde(with = "crate::by_name::optional")]
    pub level: Option<Level>,
    /// Access to the Hub. The plan determines the revision.
    pub hub: HubOptions,
}

impl Planned {
    /// Plans a conversion and writes the plan to `path`. Reads headers only. With [`OutputOptions::force`], an existing
    /// plan is overwritten. Relative paths start from the current folder, in which the plan must then be executed.
    ///
    /// # Errors
    /// Invalid options, an input that cannot be read, or options that cannot be used with a plan: `keep` and
    /// `arch.custom`, and a calibration without shared statistics.
    pub fn save(path: &Path, operation: impl Into<Operation>, events: &dyn Events) -> Result<(), Error> {
        let operation = operation.into();
        Planned::save_for(operation.call()?, path, &operation, events)
    }

    /// Same as [`Planned::save`], for the call of a program.
    ///
    /// # Errors
    /// As [`Planned::save`].
    pub fn save_for(
        call: Call,
        path: &Path,
        operation: &Operation,
        events: &dyn Events,
    ) -> Result<(), Error> {
        let folder = absolute(".").map_err(|error| Error::cannot_open(Path::new("."), error))?;
        let stored = serde_json::to_value(stored(operation)?).map_err(Error::usage)?;
        let plan = NewPlan { path, folder: &folder, conversion: &stored };
        operation.run_for(Caller { parts: Parts::Plan(plan), ..Caller::new(call, false) }, events).map(drop)
    }

    /// Opens the plan at `path`, which a program that uses the library has saved.
    ///
    /// # Errors
    /// A file that cannot be read, or that is not a plan of this version and program.
    pub fn open(path: impl Into<PathBuf>) -> Result<Planned, Error> {
        Planned::open_for(Call::default(), path)
    }

    /// Same as [`Planned::open`], for a plan that `program` has saved. The options of `program` are not used.
    ///
    /// # Errors
    /// As [`Planned::open`].
    pub fn open_for(program: Call, path: impl Into<PathBuf>) -> Result<Planned, Error> {
        let path = path.into();
        let file = text_file::options(&path).and_then(|text| {
            PlanFile::parse(&text, &program.program).map_err(|error| Error::at(&path, error))
        })?;
        let operation = Operation::deserialize(file.conversion())
            .map_err(|error| Error::at(&path, format_args!("not a plan file: {error}")))?;
        let options = file.fingerprint(&path)?.options();
        Ok(Planned { path, file, operation, program: Call { options, ..program } })
    }

    /// The folder that relative paths of the plan start from.
    pub fn folder(&self) -> &Path {
        self.file.folder()
    }

    /// Converts a part. An interrupted part is resumed, and nothing is done for a finished one.
    ///
    /// # Errors
    /// Inputs that differ from those of the plan, relative paths in another current folder than that of the plan, an
    /// output that cannot be written, an interruption.
    pub fn part(
        &self,
        number: PartNumber,
        place: Place,
        worker: &WorkerOptions,
        events: &dyn Events,
    ) -> Result<(), Error> {
        self.execute(Parts::Part { plan: self.opened(), number, place }, worker, events).map(drop)
    }

    /// Checks all parts and completes the output.
    ///
    /// # Errors
    /// A missing or damaged part, or a part of another plan; as [`Planned::part`].
    pub fn assemble(&self, worker: &WorkerOptions, events: &dyn Events) -> Result<Report, Error> {
        self.execute(Parts::Assembly(self.opened()), worker, events)?.written()
    }

    fn opened(&self) -> OpenPlan<'_> {
        OpenPlan { file: &self.file, path: &self.path }
    }

    fn execute(
        &self,
        parts: Parts<'_>,
        worker: &WorkerOptions,
        events: &dyn Events,
    ) -> Result<Outcome, Error> {
        self.check_folder()?;
        let mut operation = self.operation.clone();
        let ProcessOptions { output, hub, .. } = operation.process_options();
        let WorkerOptions { force, threads, level, .. } = *worker;
        *output = OutputOptions { out: output.out.take(), force, threads, level, ..OutputOptions::default() };
        if let Some(hub) = hub {
            *hub = HubOptions { revision: hub.revision.take(), ..worker.hub.clone() };
        }
        operation.run_for(Caller { parts, ..Caller::new(self.program.clone(), false) }, events)
    }

    /// Fails if relative paths would lead elsewhere.
    fn check_folder(&self) -> Result<(), Error> {
        let folder = self.folder();
        let here = fs::canonicalize(".").ok();
        if !self.operation.is_relative() || (here.is_some() && here == fs::canonicalize(folder).ok()) {
            return Ok(());
        }
        let message = format!("its relative paths start from folder {}", folder.display());
        Err(Error::at(&self.path, message)
            .hint(["run the program in that folder, or plan with absolute paths"]))
    }
}

/// The conversion without the options that belong to a process.
fn stored(operation: &Operation) -> Result<Operation, Error> {
    let mut stored = operation.clone();
    let has_custom_arch = stored.has_custom_arch();
    let ProcessOptions { output, hub, keep, replay } = stored.process_options();
    for (is_set, option) in [(has_custom_arch, "arch.custom"), (keep.is_some_and(|keep| *keep), "keep")] {
        if is_set {
            return Err(Error::usage(format_args!("`{option}` cannot be used with a plan")));
        }
    }
    *output = OutputOptions { out: output.out.take(), ..OutputOptions::default() };
    if let Some(hub) = hub {
        *hub = HubOptions { revision: hub.revision.take(), ..HubOptions::default() };
    }
    if let Some(replay) = replay {
        replay.save_recipe = None;
    }
    Ok(stored)
}

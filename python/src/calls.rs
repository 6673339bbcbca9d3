//! Calls of the toolkit by name. Options and reports cross as JSON.

use std::path::{Path, PathBuf};

use gguf_toolkit::{
    CompareOptions, Convert, ConvertAdapter, ConvertProjector, ConvertVocab, Error, Events, Export, FileType,
    ImatrixOptions, PerplexityOptions, Place, Quantize,
    check::{self, CheckOptions, Checked},
    check_against::CheckAgainst,
    compare::Compared,
    convert::{Operation, Plan, Planned, Report, WorkerOptions, gguf_of},
    diff, edit, endian, export_metadata, extract,
    fit::{self, FitOptions},
    hash,
    hub::HubOptions,
    merge,
    outputs::{check_outputs, write_result},
    publish::{PublishOptions, publish},
    recipe::{is_address, recipe_of_file},
    show::{ShowOptions, show},
    split,
    verify::{self, VerifyOptions},
};
use pyo3::{exceptions::PyValueError, prelude::*};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::{
    errors::Raised as _,
    events::Shared,
    work::{OnStop, run},
};

/// A call with its options, which returns its report as JSON.
type Work = Box<dyn FnOnce(&Shared) -> Result<String, Error> + Send>;

/// A call by its name.
struct Call {
    name: &'static str,
    on_stop: OnStop,
    /// Reads the options.
    prepare: fn(&str) -> PyResult<Work>,
}

fn prepare<O, R>(json: &str, work: fn(&O, &dyn Events) -> Result<R, Error>) -> PyResult<Work>
where
    O: DeserializeOwned + Send + 'static,
    R: Serialize + 'static,
{
    let options: O = parsed(json)?;
    Ok(Box::new(move |shared: &Shared| Ok(serde_json::to_string(&work(&options, shared)?)?)))
}

macro_rules! calls {
    ($($name:literal, $on_stop:ident => $work:expr;)*) => {
        const CALLS: &[Call] = &[$(
            Call { name: $name, on_stop: OnStop::$on_stop, prepare: |json| prepare(json, $work) },
        )*];
    };
}

calls! {
    "convert", Wait => |options: &Convert, events| options.run(events);
    "convert_plan", Leave => |options: &Convert, events| planned(options.plan(events)?, events);
    "quantize", Wait => |options: &Quantize, events| options.run(events);
    "quantize_plan", Leave => |options: &Quantize, events| planned(options.plan(events)?, events);
    "convert_adapter", Wait => |options: &ConvertAdapter, events| options.run(events);
    "convert_projector", Wait => |options: &ConvertProjector, events| options.run(events);
    "convert_vocab", Wait => |options: &ConvertVocab, events| options.run(events);
    "export", Wait => |options: &Export, events| options.run(events);
    "publish", Wait => |given: &WithHub<PublishOptions>, events| publish(&given.options, &given.hub, events);
    "plan_parts", Wait => |given: &NewPlan, events| Planned::save(&given.plan, given.conversion.clone(), events);
    "gguf_of", Wait => |given: &WithHub<PathBuf>, events| gguf_of(&given.options, &given.hub, events);
    "part", Wait => |given: &PlannedPart, events| given.run(events);
    "assemble", Wait => |given: &Assembly, events| Planned::open(&given.plan)?.assemble(&given.worker, events);
    "recipe", Wait => recipe;
    "edit_metadata", Wait => edit::edit;
    "export_metadata", Leave => export_metadata::export_metadata;
    "split", Wait => split::split;
    "merge", Wait => merge::merge;
    "change_endian", Wait => endian::change_endian;
    "extract", Wait => extract::extract;
    "fit", Leave => |given: &WithHub<FitOptions>, events| fit::fit(&given.options, &given.hub, events);
    "summary", Wait => |given: &ShowOptions, events| {
        if given.html.is_some() || given.modelfile.is_some() {
            show(given, &HubOptions::default(), events)?;
        }
        gguf_toolkit::summary(&given.file, events)
    };
    "diff", Leave => diff::diff;
    "hash", Leave => hash::hash;
    "verify", Leave => |given: &WithHub<VerifyOptions>, events| verify::verify(&given.options, &given.hub, events);
    "perplexity", Leave => |options: &PerplexityOptions, events| {
        Ok(gguf_toolkit::perplexity(options, events)?.json())
    };
    "compare", Wait => compare;
    // Partial results are saved after Ctrl-C.
    "imatrix", Wait => |options: &ImatrixOptions, events| gguf_toolkit::imatrix(options, events);
    "check", Wait => check;
    "check_against", Leave => |options: &CheckAgainst, events| {
        let report = options.run(events)?;
        Ok((report.text(), report))
    };
}

/// Runs the call `name` with its options as JSON, and returns its report as JSON.
///
/// Warnings, notes and finished steps go to `gguf_tools._events.receive`, and `progress` is called with the finished and
/// total bytes or pieces of the current stage.
#[pyfunction]
#[pyo3(signature = (name, options, progress = None))]
pub fn call(py: Python<'_>, name: &str, options: &str, progress: Option<Py<PyAny>>) -> PyResult<String> {
    let Some(call) = CALLS.iter().find(|call| call.name == name) else {
        return Err(PyValueError::new_err(format!("unknown call `{name}`")));
    };
    run(py, progress, call.on_stop, (call.prepare)(options)?)
}

/// Options from JSON. An error does not state the position in the JSON, which the caller does not see.
pub fn parsed<O: DeserializeOwned>(json: &str) -> PyResult<O> {
    serde_json::from_str(json).map_err(|error| {
        let message = error.to_string();
        let position = format!(" at line {} column {}", error.line(), error.column());
        PyValueError::new_err(message.strip_suffix(&position).unwrap_or(&message).to_owned())
    })
}

/// Checks the names of file types. Errors of options that cross as JSON have no fields.
#[pyfunction]
pub fn check_file_types(py: Python<'_>, names: Vec<String>) -> PyResult<()> {
    names.iter().try_for_each(|name| name.parse::<FileType>().map(drop)).raised(py)
}

/// Options of a call that takes its access to the Hub separately.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WithHub<O> {
    options: O,
    #[serde(default)]
    hub: HubOptions,
}

/// Options of a plan that is saved.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewPlan {
    plan: PathBuf,
    conversion: Operation,
}

/// Options of a part of a plan.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlannedPart {
    plan: PathBuf,
    /// As `K/N`.
    part: String,
    part_files: bool,
    worker: WorkerOptions,
}

impl PlannedPart {
    fn run(&self, events: &dyn Events) -> Result<(), Error> {
        let part = self.part.parse().map_err(|error| Error::usage(format_args!("{error}")))?;
        let place = if self.part_files { Place::OwnFile } else { Place::Shared };
        Planned::open(&self.plan)?.part(part, place, &self.worker, events)
    }
}

/// Options of the assembly of a plan.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Assembly {
    plan: PathBuf,
    worker: WorkerOptions,
}

/// Options of the recipe of a file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RecipeOptions {
    /// GGUF file, or its address.
    file: String,
    /// Recipe file to write.
    output: Option<PathBuf>,
    /// Overwrite an existing recipe file.
    force: bool,
    hub: HubOptions,
}

/// The report of a plan. A problem that prevents writing its files is a warning.
fn planned(plan: Plan, events: &dyn Events) -> Result<Report, Error> {
    if let Some(problem) = plan.problem {
        events.warning(problem.to_string());
    }
    Ok(plan.report)
}

fn recipe(options: &RecipeOptions, events: &dyn Events) -> Result<Value, Error> {
    if let Some(output) = &options.output {
        let path = Path::new(&options.file);
        let inputs: &[&Path] = if is_address(&options.file) { &[] } else { &[path] };
        check_outputs(&[output], inputs, options.force)?;
    }
    let found = recipe_of_file(&options.file, &options.hub, events)?;
    if let Some(output) = &options.output {
        found.file.save(output)?;
    }
    Ok(serde_json::from_str(&found.file.text()?)?)
}

fn compare(options: &CompareOptions, events: &dyn Events) -> Result<Value, Error> {
    let compared: Compared = gguf_toolkit::compare(options, events)?;
    let report = serde_json::to_value(&compared.report)?;
    // The results of a long run are returned even if a page cannot be written.
    if let Err(error) = compared.finish(options, events) {
        events.warning(error.to_string());
    }
    Ok(report)
}

fn check(options: &CheckOptions, events: &dyn Events) -> Result<Value, Error> {
    match check::check(options, events)? {
        Checked::Compared(report) => Ok(serde_json::to_value(report)?),
        Checked::Saved(saved) => {
            write_result(&options.baseline, saved.json.as_bytes(), options.force, Path::new(""))?;
            Ok(json!({ "metrics": [] }))
        }
    }
}

/// Access to the Hub as the environment of the process sets it, as JSON.
#[pyfunction]
pub fn hub_from_environment() -> String {
    let mut hub = HubOptions::from_environment(|name| std::env::var(name).ok());
    hub.temporary = Some(std::env::temp_dir());
    let mut options = json!(hub);
    // Left out of the serialized options.
    options["token"] = json!(hub.token);
    options.to_string()
}

//! Calls of the toolkit by name. Options and reports cross as JSON.

use std::path::{Path, PathBuf};

use gguf_toolkit::{
    CompareOptions, Convert, ConvertAdapter, ConvertProjector, ConvertVocab, Error, Events, Export, FileType,
    ImatrixOptions, PerplexityOptions, Quantize,
    check::{self, CheckOptions, Checked},
    compare::Compared,
    convert::{Plan, Report},
    diff, edit, endian, export_metadata, extract, fit, hash,
    hub::HubOptions,
    merge,
    outputs::{check_outputs, write_result},
    publish::{PublishOptions, publish},
    recipe::{is_address, recipe_of_file},
    split,
    verify::{self, VerifyOptions},
};
use pyo3::prelude::*;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::{
    errors::{exception, value_error},
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
    prepare: fn(&str) -> Result<Work, serde_json::Error>,
}

fn prepare<O, R>(json: &str, work: fn(&O, &dyn Events) -> Result<R, Error>) -> Result<Work, serde_json::Error>
where
    O: DeserializeOwned + Send + 'static,
    R: Serialize + 'static,
{
    let options: O = serde_json::from_str(json)?;
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
    "export_plan", Leave => |options: &Export, events| options.plan(events);
    "publish", Wait => |given: &Publication, events| given.run(events);
    "recipe", Wait => recipe;
    "edit_metadata", Wait => edit::edit;
    "export_metadata", Leave => export_metadata::export_metadata;
    "split", Wait => split::split;
    "merge", Wait => merge::merge;
    "change_endian", Wait => endian::change_endian;
    "extract", Wait => extract::extract;
    "fit", Leave => fit::fit;
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
}

/// Runs the call `name` with its options as JSON, and returns its report as JSON.
///
/// Warnings, notes and finished steps go to `gguf_tools._events.receive`, and `progress` is called with the finished and
/// total bytes or pieces of the current stage.
#[pyfunction]
#[pyo3(signature = (name, options, progress = None))]
pub fn call(py: Python<'_>, name: &str, options: &str, progress: Option<Py<PyAny>>) -> PyResult<String> {
    let Some(call) = CALLS.iter().find(|call| call.name == name) else {
        return Err(value_error(format!("unknown call `{name}`")));
    };
    let work = (call.prepare)(options).map_err(|error| invalid(&error))?;
    run(py, progress, call.on_stop, work)
}

/// The exception of invalid options, without the position in the JSON.
pub fn invalid(error: &serde_json::Error) -> PyErr {
    let message = error.to_string();
    let position = format!(" at line {} column {}", error.line(), error.column());
    let message = message.strip_suffix(&position).unwrap_or(&message);
    value_error(message.to_owned())
}

/// Checks the names of file types. Errors of options that cross as JSON have no fields.
#[pyfunction]
pub fn check_file_types(py: Python<'_>, names: Vec<String>) -> PyResult<()> {
    let check = |name: &String| name.parse::<FileType>().map(drop);
    names.iter().try_for_each(check).map_err(|error| exception(py, &error))
}

/// Options of a call that takes its access to the Hub separately.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WithHub<O> {
    options: O,
    #[serde(default)]
    hub: HubOptions,
}

/// Options of a publication.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Publication {
    options: PublishOptions,
    hub: HubOptions,
    /// Arguments of the command line that does the same, which the model card states.
    command: Vec<String>,
}

impl Publication {
    fn run(&self, events: &dyn Events) -> Result<(), Error> {
        let options =
            PublishOptions { command: self.command.iter().map(Into::into).collect(), ..self.options.clone() };
        publish(&options, &self.hub, events)
    }
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

/// The report of a plan. A reason why its files cannot be written is a warning.
fn planned(plan: Plan, events: &dyn Events) -> Result<Report, Error> {
    if let Some(problem) = plan.problem {
        events.warning(&problem.to_string());
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
        events.warning(&error.to_string());
    }
    Ok(report)
}

fn check(options: &CheckOptions, events: &dyn Events) -> Result<Value, Error> {
    match check::check(options, events)? {
        Checked::Compared(verdicts) => Ok(serde_json::to_value(verdicts)?),
        Checked::Saved(text) => {
            write_result(&options.baseline, text.as_bytes(), options.force, Path::new(""))?;
            Ok(Value::Array(Vec::new()))
        }
    }
}

/// Access to the Hub as the environment of the process sets it, as JSON. Options that print or store themselves leave
/// out the token, which is included here.
#[pyfunction]
pub fn hub_from_environment() -> String {
    let hub = HubOptions::from_environment(|name| std::env::var(name).ok());
    let HubOptions { token, token_file, cache_dir, endpoint, certificates, offline, .. } = hub;
    json!({
        "token": token,
        "token_file": token_file,
        "cache_dir": cache_dir,
        "endpoint": endpoint,
        "certificates": certificates,
        "offline": offline,
        "temporary": std::env::temp_dir(),
    })
    .to_string()
}

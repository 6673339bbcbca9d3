//! `gguf-convert ADAPTER [OUT] --base DIR`: a LoRA adapter as PEFT saves it to an adapter file.

use std::path::{Path, PathBuf};

use convert::{Error, PlannedFile, Request, RunOptions, recipes::Recipe};
use source::Checkpoint;

use crate::{
    commands::shared::{
        plan_report::{Origin, Report, stored_as},
        quantize_options::{add_files, paths_of},
        write::{check_output, write_and_report},
    },
    failure::Failure,
    ui::Ui,
};

/// The arguments of this mode.
#[derive(Debug, Clone, Copy)]
pub struct Lora<'a> {
    /// The adapter's folder.
    pub input: &'a Path,
    /// The folder of its base model, where one was named.
    pub base: Option<&'a Path>,
    /// The output, where one was named.
    pub out: Option<&'a Path>,
    /// Types; f32 where there is none.
    pub types: &'a [&'static Recipe],
    /// How to resolve.
    pub arch: &'a arch::Options,
    /// Replace a file that is there.
    pub force: bool,
    /// Write nothing.
    pub dry_run: bool,
    /// Say it as JSON.
    pub json: bool,
    /// How to run.
    pub run: &'a RunOptions,
}

/// Writes the file.
///
/// # Errors
/// Whatever stopped it; `about` adds the path.
pub fn run(job: &Lora<'_>, about: impl Fn(&Path, Error) -> Failure, ui: &Ui) -> Result<(), Failure> {
    let failed = |error| about(job.input, error);
    let adapter = source::open_adapter(job.input).map_err(|error| failed(Error::Source(error)))?;
    let base_path = base_of(job, &adapter)?;
    // Weights are not needed; where they are, shapes are compared.
    let base = source::open(&base_path)
        .or_else(|_| source::open_without_weights(&base_path))
        .map_err(|error| about(&base_path, Error::Source(error)))?;
    let layout = convert::resolve_adapter(&base, &adapter, job.arch).map_err(failed)?;
    let files = plan(job, &layout).map_err(failed)?;
    for note in adapter.notes.iter().chain(&layout.notes) {
        ui.note(note);
    }
    let planned: Vec<PlannedFile> = files.iter().map(|(_, file)| file.clone()).collect();
    let origin = Origin {
        input: job.input,
        format: adapter.format,
        architecture: layout.architecture,
        dropped: &layout.dropped,
        notes: [adapter.notes.clone(), layout.notes.clone()].concat(),
        stored_as: &|choice| stored_as(&adapter, &layout.tensors[choice.tensor].data),
    };
    let report = Report::new(&origin, &files, job.dry_run);
    if job.dry_run {
        return ui.data(&if job.json { report.json()? } else { report.text() });
    }
    let request = Request::default();
    let works = convert::works(&adapter, &layout, &planned, None, &request, &[]).map_err(failed)?;
    let sources: Vec<gguf::Mapped> = adapter.parts.iter().map(|part| part.bytes.clone()).collect();
    write_and_report(&works, &files, job.force, job.run, &sources, &report, ui).map_err(failed)?;
    if job.json { ui.data(&report.json()?) } else { Ok(()) }
}

/// The folder of the base model: as named, or as the adapter names it, if that is a folder here.
fn base_of(job: &Lora<'_>, adapter: &Checkpoint) -> Result<PathBuf, Failure> {
    if let Some(base) = job.base {
        return Ok(base.to_owned());
    }
    let named =
        adapter.config.get("base_model_name_or_path").and_then(|name| name.as_str()).unwrap_or_default();
    let folder = PathBuf::from(named);
    if !named.is_empty() && folder.join("config.json").is_file() {
        return Ok(folder);
    }
    let message = match named {
        "" => "an adapter needs the config of its base model".to_owned(),
        named => format!("an adapter needs the config of its base model, `{named}`"),
    };
    Err(Failure::at(job.input, message).hint(["give its folder with --base; config.json is enough"]))
}

fn plan(job: &Lora<'_>, layout: &arch::Layout) -> Result<Vec<(PathBuf, PlannedFile)>, Error> {
    let default = [Recipe::from_name("F32").map_err(Error::Recipe)?];
    let types = if job.types.is_empty() { &default[..] } else { job.types };
    let mut files = Vec::with_capacity(types.len());
    for recipe in types {
        let default_name = arch::adapter_file_name(&layout.metadata, recipe.name);
        let path = convert::output_path(job.out, &default_name, recipe.name)?;
        check_output(&path, job.out, job.input, job.force || job.dry_run)?;
        add_files(&mut files, paths_of(&path, vec![convert::plan_adapter(layout, recipe)?]), types.len())?;
    }
    Ok(files)
}

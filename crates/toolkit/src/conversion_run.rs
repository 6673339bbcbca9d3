//! A conversion run: the common part of `gguf-convert` and `gguf-quantize` after the input is open.

use std::{
    path::{Path, PathBuf},
    time::Instant,
};

use gguf_conversion::{
    Conversion, FileOf, Input, OutputRequest, PlannedFile, Repacked, RunOptions, Unfinished, Watch,
    recipes::{Recipe, RecipeError, TensorFacts},
};

use crate::{
    calibration::{Calibration, Gained, leftovers},
    call::Call,
    error::Error,
    events::Events,
    input_kind::{self, Wanted},
    layout_notes::Notes,
    loader_report,
    outputs::make_folder,
    plan_file::{self, PlanFile, Wanted as OfPlan},
    plan_report::{Origin, Report},
    plan_run::Planned,
    settings::Settings,
    text::{human_bytes, human_duration},
    write::{check_output, is_new_folder, write_and_report},
};

/// An open input, with the facts for a report.
pub struct OpenInput<'a, I> {
    /// The input.
    pub input: I,
    /// Its path.
    pub path: &'a Path,
    /// Its files, none of which may be written to.
    pub files: Vec<PathBuf>,
    /// Its format.
    pub format: &'static str,
    /// Architecture of the model.
    pub architecture: String,
    /// Notes and warnings to print.
    pub notes: Notes,
    /// Tensors that have no place in the output.
    pub dropped: Vec<gguf_models::Dropped>,
    /// Stored format of the source of each tensor.
    pub stored_as: Vec<String>,
    /// Outcome of `--repack` for each tensor; empty without it.
    pub repacked: Vec<Repacked>,
}

/// Arguments of a run other than the types.
#[derive(Debug, Clone)]
pub struct RunArgs<'a> {
    /// The output, where one was named.
    pub out: Option<&'a Path>,
    /// Replace existing files.
    pub force: bool,
    /// Plan, report, write nothing.
    pub dry_run: bool,
    /// True if importance is gathered from texts before the run; a dry run has none yet.
    pub gathers: bool,
    /// Threads and other options of the library.
    pub options: RunOptions,
    /// Identity of the call.
    pub call: Call,
    /// The part of a plan to execute, or all.
    pub parts: Parts<'a>,
}

/// Result of a run.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The files; none for a plan or a part of one.
    pub report: Option<Report>,
    /// Reason why a dry run's files cannot be written.
    pub problem: Option<Error>,
}

/// The part of a conversion to execute.
#[derive(Debug, Clone)]
pub struct Parts<'a> {
    /// All, a plan, or something of a plan.
    pub wanted: plan_file::Wanted<'a>,
    /// The plan and its path, where there is one.
    pub plan: Option<&'a (PlanFile, PathBuf)>,
    /// Arguments that a plan stores.
    pub arguments: &'a [String],
    /// The folder that their relative paths are seen from.
    pub folder: &'a Path,
}

impl Parts<'_> {
    /// The whole conversion at once.
    pub fn all() -> Parts<'static> {
        Parts { wanted: plan_file::Wanted::Everything, plan: None, arguments: &[], folder: Path::new(".") }
    }
}

/// Plans, checks and writes the files of `recipes`. Reports notes and warnings on the way.
///
/// # Errors
/// Invalid options, an input that cannot be read, an output that cannot be written, an interruption.
pub fn run<I: Input>(
    open: OpenInput<'_, I>,
    recipes: Vec<&'static Recipe>,
    settings: &Settings,
    args: &RunArgs<'_>,
    events: &dyn Events,
) -> Result<Outcome, Error> {
    run_with(open, recipes, None, settings, args, events)
}

/// Returns the paths of the outputs, and fails early if one of them cannot be written.
///
/// # Errors
/// As [`run`].
pub fn check_outputs<I: Input>(
    (input, path): (I, &Path),
    (out, recipes): (Option<&Path>, Vec<&'static Recipe>),
    settings: &Settings,
    (force, resume): (bool, bool),
) -> Result<Vec<PathBuf>, Error> {
    let failed = |error| failure(path, error);
    let conversion = Conversion::new(input).outputs(settings.outputs(recipes)?).request(settings.request());
    let planned = conversion.plan().map_err(failed)?;
    let paths = planned.paths(out).map_err(failed)?;
    let goes_on = resume && gguf_conversion::unfinished(&paths).is_some();
    for path in paths.iter().filter(|_| !is_new_folder(out)) {
        planned.input().check_output(path, force || goes_on).map_err(failed)?;
    }
    Ok(paths)
}

/// Like [`run`], with a separate type for the projector.
///
/// # Errors
/// As [`run`].
pub fn run_with<I: Input>(
    open: OpenInput<'_, I>,
    recipes: Vec<&'static Recipe>,
    projector: Option<&'static Recipe>,
    settings: &Settings,
    args: &RunArgs<'_>,
    events: &dyn Events,
) -> Result<Outcome, Error> {
    let failed = |error| failure(open.path, error);
    let mut outputs = settings.outputs(recipes.clone())?;
    outputs.extend(projector.map(OutputRequest::projector));
    // Names and shapes are the same for all types.
    let first_recipe = outputs.first().map(|output| output.recipe);
    let conversion = Conversion::new(open.input).outputs(outputs).request(settings.request());
    let tensors = first_recipe.map(|recipe| conversion.input().tensors(recipe)).unwrap_or_default();
    settings.warn_of_patterns(&tensors, events);
    settings.check_replay(&tensors, events)?;

    let planned = conversion.plan().map_err(failed)?;
    let paths = planned.paths(args.out).map_err(failed)?;
    // An interrupted run may have renamed some of its files already; whether they are its own is checked
    // later.
    let goes_on = args.call.resume && gguf_conversion::unfinished(&paths).is_some();
    for path in &paths {
        // A dry run replaces nothing, so nothing is in its way.
        let force = args.force || args.dry_run || goes_on || args.parts.wanted == OfPlan::Assembly;
        let checked = match is_new_folder(args.out) {
            true => check_output(path, args.out, open.path, force),
            false => planned.input().check_output(path, force),
        };
        checked.map_err(failed)?;
    }
    let files: Vec<(PathBuf, &PlannedFile)> = paths.into_iter().zip(planned.files()).collect();
    open.notes.tell(events);
    for dropped in &open.dropped {
        events.detail(&format!("tensor `{}` is not written: {}", dropped.name, dropped.reason));
    }
    // An importance matrix does not cover projectors.
    let of_models: Vec<_> = files.iter().filter(|(_, file)| file.of == FileOf::Model).cloned().collect();
    let of_projectors = files.iter().filter(|(_, file)| file.of == FileOf::Projector);
    let first_of_them = of_projectors.flat_map(|(_, file)| &file.choices).map(|choice| choice.tensor).min();
    let n_tensors = first_of_them.unwrap_or(tensors.len());
    let coverage = settings.report_coverage(&tensors[..n_tensors], &of_models, events)?;
    let not_loaded = loader_report::not_loaded(&of_models);
    let mut warnings: Vec<String> = Vec::new();
    for warning in of_models.iter().flat_map(|(_, file)| file.warnings.iter().cloned()).chain(not_loaded) {
        // All outputs have the same layers and tensors.
        if !warnings.contains(&warning) {
            warnings.push(warning);
        }
    }
    warnings.iter().for_each(|text| events.warning(text));
    let origin = Origin {
        input: open.path,
        format: open.format,
        architecture: &open.architecture,
        dropped: &open.dropped,
        notes: [open.notes.all(), coverage, warnings].concat(),
        stored_as: &open.stored_as,
        repacked: &open.repacked,
    };
    if let Some(calibration) = settings.calibration() {
        files.iter().try_for_each(|(path, file)| calibration.check_size(path, file.plan.file_len()))?;
    }
    let mut report = Report::new(&origin, &files, args.dry_run);
    let inputs: Vec<&Path> = open.files.iter().map(PathBuf::as_path).collect();
    if args.dry_run {
        settings.save(&tensors, &files, &inputs, args.force, events)?;
        for (path, _) in files.iter().filter(|(path, _)| !args.force && path.exists()) {
            events.note(&format!("{} exists; use --force to overwrite it", path.display()));
        }
        let problem = match planned.check() {
            // Calibration collects the importance data.
            Err(
                gguf_conversion::Error::NeedsImatrix { .. }
                | gguf_conversion::Error::NotInImatrix { .. }
                | gguf_conversion::Error::Imatrix { .. },
            ) if args.gathers => None,
            checked => checked.err().map(failed),
        };
        return Ok(Outcome { report: Some(report), problem });
    }
    let checked = planned.check().map_err(failed)?;
    settings.save(&tensors, &files, &inputs, args.force, events)?;
    let of_plan = Planned { checked: &checked, files: &files, input: open.path, args };
    match (args.parts.wanted, args.parts.plan) {
        (OfPlan::Save(path), _) => {
            of_plan.save(path, (args.parts.folder, args.parts.arguments), &inputs, events)?;
            return Ok(Outcome::default());
        }
        (OfPlan::Part(number, place), Some((plan, path))) => {
            of_plan.part((plan, path), (number, place), events)?;
            return Ok(Outcome::default());
        }
        (OfPlan::Assembly, Some((plan, path))) => {
            of_plan.assemble((plan, path), events)?;
            return Ok(Outcome::default());
        }
        _ => {}
    }
    warn_of_loss(&tensors, &files, events);
    write_and_report(&checked, &files, open.path, args, &report, events)?;
    if let Some(calibration) = settings.calibration() {
        // The rest needs only the files.
        calibration.done();
        let stock = Conversion::new(planned.input()).outputs(settings.plain_outputs(recipes)?);
        let stock = stock.request(settings.plain_request());
        report.calibration = gains(calibration, &stock, &files, open.path, args, events)?;
    }
    Ok(Outcome { report: Some(report), problem: None })
}

/// Gains from calibration for each output. For the comparison with the base, files of the requested types
/// without calibration are written to a folder next to the first output. They have the names of the outputs,
/// because shards refer to each other by name.
fn gains<I: Input>(
    calibration: &Calibration,
    stock: &Conversion<'_, I>,
    files: &[(PathBuf, &PlannedFile)],
    input: &Path,
    args: &RunArgs<'_>,
    events: &dyn Events,
) -> Result<Vec<Gained>, Error> {
    let failed = |error| failure(input, error);
    let name = |path: &Path| path.file_name().unwrap_or_default().to_owned();
    let folder = files.first().map_or_else(PathBuf::new, |(first, _)| {
        first.with_file_name(format!(".{}.stock", name(first).to_string_lossy()))
    });
    let paths: Vec<PathBuf> = files.iter().map(|(path, _)| folder.join(name(path))).collect();
    let began = Instant::now();
    let _guard = Removed(&folder, events);
    if calibration.verifies() {
        make_folder(&folder)?;
        let planned = stock.plan().map_err(failed)?;
        let stock = planned.check().map_err(failed)?;
        let cancel = events.cancel();
        let progress = events.progress(stock.input_bytes());
        let watch = Watch { cancel: &cancel, done: &|_, bytes| progress.add(bytes), sources: &[] };
        stock.write_to(&paths, true, &args.options, watch).map_err(failed)?;
    }
    let stocking = began.elapsed();
    let mut gains = Vec::new();
    // Of shards the first one opens all of them.
    for ((path, file), stock) in files.iter().zip(&paths) {
        if file.shard.is_none_or(|(no, _)| no == 1) {
            let stock = calibration.verifies().then_some(stock.as_path());
            let same_output = files.iter().filter(|(_, other)| other.recipe.name == file.recipe.name);
            let tensors = same_output.flat_map(|(_, file)| file.plan.tensors());
            let types = tensors.map(|tensor| (tensor.name.as_str(), tensor.dtype)).collect();
            let gained = calibration.gained(path, stock, stocking, &types, events)?;
            gained.text().lines().for_each(|line| events.status(line));
            gains.push(gained);
        }
    }
    Ok(gains)
}

/// A folder that is removed with its files on drop.
struct Removed<'a>(&'a Path, &'a dyn Events);

impl Drop for Removed<'_> {
    fn drop(&mut self) {
        let removed = std::fs::remove_dir_all(self.0);
        if let Err(error) = removed
            && self.0.exists()
        {
            self.1.warning(&format!("{}: cannot remove temporary files: {error}", self.0.display()));
        }
    }
}

/// The error of a conversion of `input`, with sizes and times in readable units.
pub fn failure(input: &Path, error: gguf_conversion::Error) -> Error {
    use gguf_conversion::Error as E;
    match error {
        E::Gguf(gguf_container::Error::NoSpace { folder, needed, free }) => {
            let (needed, free) = (human_bytes(needed), human_bytes(free));
            Error::at(&folder, format_args!("not enough disk space: {needed} needed, {free} free"))
        }
        E::Unfinished { path, run } => unfinished(&path, &run),
        E::NotResumable { path, differences, .. } => {
            let differences = differences.join("; ");
            Error::at(&path, format_args!("cannot resume: {differences}"))
        }
        E::Gguf(gguf_container::Error::Busy { path }) => Error::at(&path, "being written by another process"),
        E::Busy { path, process, host, began } => {
            let host = if gguf_container::this_process().1 == host {
                "this machine".to_owned()
            } else {
                format!("`{host}`")
            };
            let since = began.and_then(|began| began.elapsed().ok());
            let since = since.map_or_else(String::new, |since| format!(", since {}", human_duration(since)));
            Error::at(&path, format_args!("being written by process {process} on {host}{since}"))
        }
        E::Source(gguf_checkpoint::Error::Read(gguf_checkpoint::ReadError::Interrupted)) => {
            Error::interrupted()
        }
        error @ E::Recipe(RecipeError::Key(_)) => {
            input_kind::explained(input, Wanted::Gguf, Error::at(input, error))
        }
        error @ E::Source(_) => Error::at(input, error).hint(input_kind::advice(input, Wanted::Checkpoint)),
        error => Error::at(input, error),
    }
}

/// An earlier run that was stopped, and what can be done about it.
fn unfinished(path: &Path, run: &Unfinished) -> Error {
    let age = run.age.map_or_else(String::new, |age| format!(" {} ago", human_duration(age)));
    let (done, total) = (human_bytes(run.done_bytes), human_bytes(run.total_bytes));
    let message = format!("an earlier run was interrupted{age} after {done} of {total}");
    let outputs = (run.outputs.len() > 1).then(|| format!("it also wrote {}", run.outputs[1..].join(", ")));
    Error::at(path, message)
        .hint(outputs)
        .hint(["use --resume to continue that run, or --force to start over".to_owned(), removes(run)])
}

/// The command that removes the files of an unfinished run.
fn removes(run: &Unfinished) -> String {
    let first = run.files.first().zip(run.outputs.first()).map(|(journal, out)| journal.with_file_name(out));
    let of_texts: Vec<PathBuf> = first.iter().flat_map(|out| leftovers(out)).collect();
    let files: Vec<&Path> = run.files.iter().chain(&of_texts).map(PathBuf::as_path).collect();
    format!("run `{}` to remove its files", rm(&files))
}

/// Shell command that removes files.
pub fn rm(paths: &[impl AsRef<Path>]) -> String {
    let how = if paths.iter().any(|path| path.as_ref().is_dir()) { "rm -r" } else { "rm" };
    paths.iter().fold(how.to_owned(), |command, path| command + " " + &quoted(path.as_ref()))
}

/// A path as a shell takes it.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=,@%~:".contains(c);
    if text.chars().all(is_plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

/// Hints for an interrupted run; empty if it left nothing.
pub fn resume_hints(paths: &[PathBuf]) -> Vec<String> {
    let Some(run) = gguf_conversion::unfinished(paths) else { return Vec::new() };
    let (done, total) = (human_bytes(run.done_bytes), human_bytes(run.total_bytes));
    vec![format!("{done} of {total} done; use --resume to continue"), removes(&run)]
}

/// Warns about weights that lose precision a second time.
fn warn_of_loss(tensors: &[TensorFacts<'_>], files: &[(PathBuf, &PlannedFile)], events: &dyn Events) {
    for (path, file) in files {
        let twice = file.choices.iter().filter(|choice| {
            let from = tensors[choice.tensor].dtype;
            from.is_quantized() && from != choice.dtype
        });
        let n_twice = twice.count();
        if n_twice > 0 {
            events.warning(&format!(
                "{}: {n_twice} tensors are already quantized; quantizing them again loses more precision",
                path.display()
            ));
        }
    }
}

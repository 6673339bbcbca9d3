//! The common part of all conversions after the input is open: plan, check, write, report.

use std::{
    path::{Path, PathBuf},
    time::Instant,
};

use gguf_conversion::{
    Conversion, FileOf, Input, OutputRequest, PlannedConversion, PlannedFile, Watch, recipes::TensorFacts,
};

use super::{
    checked::Checked,
    fallback_advice,
    finished::finished,
    report::{Origin, Report},
    run_args::{OpenInput, Outcome, Parts, Requested, RunArgs},
    write::write_and_report,
};
use crate::{
    calibration::{Calibration, Gained, trained::TrainedBlocks},
    error::Error,
    events::Events,
    failure::failure,
    loader_report,
    output_files::{check_output, is_new_folder},
    outputs::{check_distinct, make_folder},
    settings::Settings,
};
use gguf_types::words;

/// Returns the paths of the outputs, and fails early if one of them cannot be written or a tensor cannot get its type. `None` if an
/// earlier run has finished them.
///
/// # Errors
/// As [`run`].
pub fn check_paths<I: Input>(
    open: &OpenInput<'_, I>,
    requested: &Requested<'_>,
    args: &RunArgs<'_>,
) -> Result<Option<Vec<PathBuf>>, Error> {
    let failed = |error| failure(open.path, error);
    let settings = requested.settings;
    let outputs = settings.outputs(requested.recipes.clone(), &open.input)?;
    let conversion = Conversion::new(&open.input).outputs(outputs).request(settings.request());
    let planned = conversion.plan().map_err(failed)?;
    planned.check_types().map_err(failed)?;
    let paths = planned.paths(args.out).map_err(failed)?;
    let files: Vec<(PathBuf, &PlannedFile)> = paths.iter().cloned().zip(planned.files()).collect();
    check_separate(&paths, settings, args)?;
    if finished(&files, args)?.is_some() {
        return Ok(None);
    }
    let resumes = args.resume && gguf_conversion::unfinished(&paths).is_some();
    for path in paths.iter().filter(|_| !is_new_folder(args.out)) {
        planned.input().check_output(path, args.force || resumes).map_err(failed)?;
    }
    Ok(Some(paths))
}

/// Checks that the files that a run writes differ from each other and from those that its options name. The files of the input
/// are checked by the input.
fn check_separate(paths: &[PathBuf], settings: &Settings, args: &RunArgs<'_>) -> Result<(), Error> {
    let plan = match args.parts {
        Parts::Plan(plan) => Some(plan.path),
        _ => None,
    };
    let outputs: Vec<&Path> =
        paths.iter().map(PathBuf::as_path).chain(settings.save_to()).chain(plan).collect();
    check_distinct(&outputs, &args.call.files)
}

/// Plans, checks and writes the requested files. Reports notes and warnings on the way.
///
/// # Errors
/// Invalid options, an input that cannot be read, an output that cannot be written, an interruption.
pub fn run<I: Input>(
    open: OpenInput<'_, I>,
    requested: Requested<'_>,
    args: &RunArgs<'_>,
    events: &dyn Events,
) -> Result<Outcome, Error> {
    let Requested { recipes, projector, settings, calibration } = requested;
    let failed = |error| failure(open.path, error);
    let mut outputs = settings.outputs(recipes.clone(), &open.input)?;
    outputs.extend(projector.map(OutputRequest::projector));
    // Names and shapes are the same for all types.
    let first_recipe = outputs.first().map(|output| output.recipe);
    let conversion = Conversion::new(open.input).outputs(outputs).request(settings.request());
    let tensors = first_recipe.map(|recipe| conversion.input().tensors(recipe)).unwrap_or_default();
    settings.warn_of_patterns(&tensors, events);
    settings.check_replay(&tensors, events)?;

    let planned = conversion.plan().map_err(failed)?;
    let paths = planned.paths(args.out).map_err(failed)?;
    check_separate(&paths, settings, args)?;
    let mut files: Vec<(PathBuf, &PlannedFile)> = paths.iter().cloned().zip(planned.files()).collect();
    let finished = finished(&files, args)?;
    match &finished {
        Some(finished) => {
            files.iter_mut().zip(finished).for_each(|((_, planned), written)| *planned = written);
        }
        None => check_writable(planned.input(), &paths, open.path, args)?,
    }
    open.notes.tell(events);
    for dropped in &open.dropped {
        events.detail(format!("tensor `{}` is not written: {}", dropped.name, dropped.reason));
    }
    let notes = report_files(settings, &tensors, &files, events)?;
    let origin = Origin {
        input: open.path,
        format: open.format,
        architecture: &open.architecture,
        dropped: &open.dropped,
        notes: [open.notes.all(), notes].concat(),
        stored_as: &open.stored_as,
        repacked: &open.repacked,
        settings,
    };
    if let Some(calibration) = calibration {
        files.iter().try_for_each(|(path, file)| calibration.check_size(path, file.plan.file_len()))?;
    }
    let mut report = Report::new(&origin, &files, args.dry_run);
    if finished.is_some() {
        for (path, _) in &files {
            events.status(format!("{} is already finished", path.display()));
        }
        return Ok(Outcome { report: Some(report), problem: None });
    }
    let inputs: Vec<&Path> = open.files.iter().map(PathBuf::as_path).collect();
    if args.dry_run {
        settings.save(&tensors, &files, &inputs, args.force, events)?;
        let problem = dry_run_problem(&planned, &files, open.path, args, events);
        return Ok(Outcome { report: Some(report), problem });
    }
    let checked = planned.check().map_err(failed)?;
    settings.save(&tensors, &files, &inputs, args.force, events)?;
    let run = Checked { conversion: &checked, files: &files, input: open.path, args };
    match args.parts {
        Parts::Whole => {}
        Parts::Plan(plan) => return run.save(plan, &inputs, events).map(|()| Outcome::default()),
        Parts::Part { plan, number, place } => {
            return run.part(plan, number, place, events).map(|()| Outcome::default());
        }
        Parts::Assembly(plan) => {
            run.assemble(plan, events)?;
            return Ok(Outcome { report: Some(report), problem: None });
        }
    }
    warn_of_loss(&tensors, &files, events);
    report.advice = fallback_advice::advice(planned.input(), settings, &files);
    let trains = calibration.filter(|calibration| calibration.trains());
    let _guard = trains.map(|calibration| train(calibration, &run, events)).transpose()?;
    write_and_report(&run, &report, events)?;
    if let Some(calibration) = calibration {
        // The rest of the work needs only the files.
        calibration.done();
        let stock =
            Conversion::new(planned.input()).outputs(settings.plain_outputs(recipes, planned.input())?);
        let stock = stock.request(settings.plain_request());
        report.calibration = gains(calibration, &stock, &run, events)?;
    }
    Ok(Outcome { report: Some(report), problem: None })
}

/// Checks that files can be written to the paths.
fn check_writable<I: Input>(
    input: &I,
    paths: &[PathBuf],
    source: &Path,
    args: &RunArgs<'_>,
) -> Result<(), Error> {
    // An interrupted run may have renamed some of its files already. A later check tells them from other files.
    let resumes = args.resume && gguf_conversion::unfinished(paths).is_some();
    // A dry run overwrites nothing.
    let force = args.force || args.dry_run || resumes || matches!(args.parts, Parts::Assembly(_));
    for path in paths {
        let checked = if is_new_folder(args.out) {
            check_output(path, args.out, source, force)
        } else {
            input.check_output(path, force)
        };
        checked.map_err(|error| failure(source, error))?;
    }
    Ok(())
}

/// Reports the warnings of the planned files and of their importance data. Returns them as notes for the report.
fn report_files(
    settings: &Settings,
    tensors: &[TensorFacts<'_>],
    files: &[(PathBuf, &PlannedFile)],
    events: &dyn Events,
) -> Result<Vec<String>, Error> {
    // An importance matrix does not cover projectors.
    let of_models: Vec<_> = files.iter().filter(|(_, file)| file.of == FileOf::Model).cloned().collect();
    let of_projectors = files.iter().filter(|(_, file)| file.of == FileOf::Projector);
    let first_projector_tensor =
        of_projectors.flat_map(|(_, file)| &file.choices).map(|choice| choice.tensor).min();
    let tensors = &tensors[..first_projector_tensor.unwrap_or(tensors.len())];
    settings.warn_of_no_effect(tensors, &of_models, events);
    let coverage = settings.report_coverage(tensors, &of_models, events)?;
    let not_loaded = loader_report::not_loaded(&of_models);
    let mut warnings: Vec<String> = Vec::new();
    for warning in of_models.iter().flat_map(|(_, file)| file.warnings.iter().cloned()).chain(not_loaded) {
        // All outputs have the same layers and tensors.
        if !warnings.contains(&warning) {
            warnings.push(warning);
        }
    }
    warnings.iter().for_each(|text| events.warning(text));
    Ok([coverage, warnings].concat())
}

/// Notes the existing outputs of a dry run. Returns the reason why its files cannot be written.
fn dry_run_problem<I: Input>(
    planned: &PlannedConversion<'_, I>,
    files: &[(PathBuf, &PlannedFile)],
    source: &Path,
    args: &RunArgs<'_>,
    events: &dyn Events,
) -> Option<Error> {
    for (path, _) in files.iter().filter(|(path, _)| !args.force && path.exists()) {
        events.note(words!("{} exists; use [-force] to overwrite it", path.display()));
    }
    match planned.check() {
        // Calibration collects the importance data.
        Err(
            gguf_conversion::Error::NeedsImatrix { .. }
            | gguf_conversion::Error::NotInImatrix { .. }
            | gguf_conversion::Error::Imatrix { .. },
        ) if args.gathers => None,
        checked => checked.err().map(|error| failure(source, error)),
    }
}

/// Writes the files to a folder next to the first output, trains their scales there, and has the blocks of the
/// outputs copied from them. The folder is removed with the guard.
fn train<'a, I: Input>(
    calibration: &'a Calibration,
    run: &Checked<'_, I>,
    events: &'a dyn Events,
) -> Result<(TrainedBlocks<'a>, Removed<'a>), Error> {
    let (folder, paths) = copies(run.files, "untrained");
    let guard = Removed(folder, events);
    write_copies(run, &guard.0, &paths, events)?;
    let untrained = paths.first().map_or(Path::new(""), PathBuf::as_path);
    Ok((calibration.train(untrained, events)?, guard))
}

/// A hidden folder next to the first output, and paths in it. They have the names of the outputs, because shards
/// refer to each other by name.
fn copies(files: &[(PathBuf, &PlannedFile)], kind: &str) -> (PathBuf, Vec<PathBuf>) {
    let name = |path: &Path| path.file_name().unwrap_or_default().to_owned();
    let folder = files.first().map_or_else(PathBuf::new, |(first, _)| {
        first.with_file_name(format!(".{}.{kind}", name(first).to_string_lossy()))
    });
    let paths = files.iter().map(|(path, _)| folder.join(name(path))).collect();
    (folder, paths)
}

/// Writes files that [`copies`] named.
fn write_copies<I: Input>(
    run: &Checked<'_, I>,
    folder: &Path,
    paths: &[PathBuf],
    events: &dyn Events,
) -> Result<(), Error> {
    make_folder(folder)?;
    let cancel = events.cancel();
    let progress = events.progress(run.conversion.input_bytes());
    let watch = Watch { cancel: &cancel, done: &|_, bytes| progress.add(bytes), ..Watch::default() };
    let written = run.conversion.write_to(paths, true, &run.args.options, watch);
    written.map_err(|error| failure(run.input, error))
}

/// Gains from calibration for each output. For the comparison with the base, files of the requested types
/// without calibration are written to a folder next to the first output.
fn gains<S: Input, I: Input>(
    calibration: &Calibration,
    stock: &Conversion<'_, S>,
    run: &Checked<'_, I>,
    events: &dyn Events,
) -> Result<Vec<Gained>, Error> {
    let failed = |error| failure(run.input, error);
    let files = run.files;
    let (folder, paths) = copies(files, "stock");
    let began = Instant::now();
    let guard = Removed(folder, events);
    if calibration.verifies() {
        let planned = stock.plan().map_err(failed)?;
        let stock = planned.check().map_err(failed)?;
        let stock = Checked { conversion: &stock, files, input: run.input, args: run.args };
        write_copies(&stock, &guard.0, &paths, events)?;
    }
    let stock_time = began.elapsed();
    let mut gains = Vec::new();
    // The first shard opens all of them.
    for ((path, file), stock) in files.iter().zip(&paths) {
        if file.shard.is_none_or(|(no, _)| no == 1) {
            let stock = calibration.verifies().then_some(stock.as_path());
            let same_output = files.iter().filter(|(_, other)| other.recipe.name == file.recipe.name);
            let tensors = same_output.flat_map(|(_, file)| file.plan.tensors());
            let types = tensors.map(|tensor| (tensor.name.as_str(), tensor.dtype)).collect();
            let gained = calibration.gained(path, stock, stock_time, &types, events)?;
            gained.text().lines().for_each(|line| events.status(line));
            gains.push(gained);
        }
    }
    Ok(gains)
}

/// A folder that is removed with its files on drop.
struct Removed<'a>(PathBuf, &'a dyn Events);

impl Drop for Removed<'_> {
    fn drop(&mut self) {
        let removed = std::fs::remove_dir_all(&self.0);
        if let Err(error) = removed
            && self.0.exists()
        {
            self.1.warning(format!("{}: cannot remove temporary files: {error}", self.0.display()));
        }
    }
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
            events.warning(format!(
                "{}: {n_twice} tensors are already quantized; quantizing them again loses more precision",
                path.display()
            ));
        }
    }
}

//! Quantization of a GGUF file: the input, or the intermediate file of a checkpoint.

use std::path::Path;

use gguf_container::Model;
use gguf_conversion::recipes::Recipe;
use gguf_layout::Families;

use super::{
    run::{self, check_paths},
    run_args::{OpenInput, Outcome, Requested, RunArgs},
};
use crate::{
    adapter::{self, Adapter},
    calibration::{
        BudgetOptions, Calibration, CalibrationOptions, Folder, NamedInput,
        types_by_weights::{self, Basis},
    },
    error::Error,
    events::Events,
    failure::failure,
    layout_notes::Notes,
    settings::Settings,
};
use gguf_types::words;

/// Input and settings of a run.
#[derive(Debug)]
pub struct QuantizeJob<'a> {
    /// Families of models.
    pub families: Families,
    /// The GGUF file that is read.
    pub base: &'a Path,
    /// Input as the call names it: the base, or its source.
    pub input: &'a Path,
    /// Adapter files to merge.
    pub adapters: &'a [Adapter],
    /// Format of `input`.
    pub format: &'static str,
    /// The types; empty if a recipe file states them.
    pub recipes: Vec<&'static Recipe>,
    /// Settings other than the types.
    pub settings: Settings,
    /// The texts to calibrate on, if any.
    pub calibration: &'a CalibrationOptions,
    /// Budget for the choice of types.
    pub budget: &'a BudgetOptions,
}

/// Reads the calibration texts, chooses types if requested, and writes the files.
///
/// # Errors
/// Invalid options, an input that cannot be read, an output that cannot be written, an interruption.
pub fn run(
    model: Model,
    job: QuantizeJob<'_>,
    mut args: RunArgs<'_>,
    events: &dyn Events,
) -> Result<Outcome, Error> {
    let QuantizeJob { families, base, input, adapters, format, recipes, settings, calibration, budget } = job;
    let architecture =
        model.get("general.architecture").and_then(gguf_container::Value::as_str).unwrap_or("?");
    let architecture = architecture.to_owned();
    let shapes = model.tensors().map(|(_, tensor)| (tensor.name.as_str(), tensor.shape));
    let is_diffusion = families.diffusion_file(model.metadata(), shapes).is_some();
    let mut open = OpenInput {
        path: input,
        files: model.shards().iter().map(|(path, _)| path.clone()).collect(),
        format,
        architecture: architecture.clone(),
        notes: Notes::default(),
        dropped: Vec::new(),
        stored_as: model.tensors().map(|(_, tensor)| tensor.dtype.name().to_owned()).collect(),
        repacked: Vec::new(),
        input: adapter::merged(families, model, adapters)?,
    };
    open.notes.notes.extend(open.input.merge_notes().iter().map(|note| note.clone().into()));
    for (file, scale) in open.input.adapters() {
        let (path, n) = (file.path().display(), file.targets().count());
        let times = if *scale == 1.0 { String::new() } else { format!(" {scale} times") };
        open.notes.notes.push(format!("adapter `{path}`: LoRA merged{times} into {n} tensors").into());
        open.notes.warnings.extend(adapter::warning_of_norms(file).map(Into::into));
    }
    if is_diffusion && calibration.is_wanted() {
        return Err(types_by_weights::no_calibration(input));
    }
    if !is_diffusion {
        budget.check_basis(calibration.is_wanted(), settings.has_imatrix())?;
    }
    if !calibration.is_wanted() {
        let basis = if is_diffusion { Basis::Weights } else { Basis::Importance };
        let named = NamedInput { input: &open.input, path: input };
        let settings =
            budget.decide_by_weight_error(named, &recipes, settings, basis, &args.options, events)?;
        return run::run(open, Requested::new(recipes, &settings), &args, events);
    }
    if args.dry_run {
        return run::run(open, Requested::new(recipes, &settings), &args, events);
    }
    if calibration.train_scales && (recipes.len() > 1 || !args.parts.is_whole()) {
        let message = "scales are trained for one file type, in one run";
        return Err(Error::usage(message).hint([words!("pass one type, or no [-train-scales]")]));
    }
    if !args.parts.is_whole() && calibration.statistics.is_none() {
        let message = "a calibrated conversion in parts needs shared statistics";
        return Err(Error::usage(message).hint([words!("pass a shared folder with [-statistics]")]));
    }
    let requested = Requested::new(recipes.clone(), &settings);
    let Some(paths) = check_paths(&open, &requested, &args)? else {
        return run::run(open, requested, &args, events);
    };
    if args.parts.is_whole() {
        let checked = gguf_conversion::check_unfinished(&paths, args.force, args.resume);
        checked.map_err(|error| failure(input, error))?;
    }
    let named = NamedInput { input: &open.input, path: input };
    let budget = budget.settle(named, &recipes, &settings, &calibration.calibrate, events)?;
    let out = paths.first().map_or(Path::new(""), |path| path);
    let folder = Folder::of(calibration.statistics.as_deref(), out);
    let write = || {
        let (threads, level) = (args.options.threads, args.options.level);
        let mut gathered = Calibration::gather(calibration, base, folder.clone(), threads, level, events)?;
        args.call = args.call.clone().argument("moments", gathered.fingerprint());
        let mut settings = settings.calibrated(gathered.additions()?);
        if let (&[recipe], true) = (&recipes[..], budget.chooses_types())
            && let Some(dtypes) = gathered.choose_types(&budget, recipe, &settings, events)?
        {
            settings = settings.decided(dtypes);
        }
        let requested = Requested { calibration: Some(&gathered), ..Requested::new(recipes, &settings) };
        run::run(open, requested, &args, events)
    };
    write().inspect(|_| folder.remove(events)).map_err(|failure| match gguf_conversion::unfinished(&paths) {
        None if folder.is_temporary || failure.is_interrupted() => failure.hint(folder.resume_hint()),
        // Reported with the other leftovers, or kept in the folder that the caller named.
        _ => failure,
    })
}

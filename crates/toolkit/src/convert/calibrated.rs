//! Conversion of a checkpoint with calibration.
//!
//! The checkpoint is first converted to a temporary GGUF file next to the output, because the model runs from
//! one file. That file is then quantized.

use std::{
    fs,
    path::{Path, PathBuf},
};

use gguf_checkpoint::{Checkpoint, Dtype};
use gguf_container::Model;
use gguf_conversion::{Input, NonFinite, recipes::Recipe};

use super::{
    quantize_model::{self, QuantizeJob},
    run::{self, check_paths},
    run_args::{OpenInput, Outcome, Requested, RunArgs},
};
use crate::{
    calibration::{BudgetOptions, CalibrationOptions, NamedInput},
    error::Error,
    events::Events,
    failure::failure,
    hidden_files,
    hub::HubOptions,
    settings::{OtherSettings, RecipeOptions, Settings, TensorOptions},
};

/// The arguments of this mode.
#[derive(Debug)]
pub struct Calibrated<'a> {
    /// The types to make.
    pub recipes: Vec<&'static Recipe>,
    /// The type of the intermediate file, which preserves the checkpoint.
    pub between: &'static Recipe,
    /// Settings other than the types.
    pub settings: Settings,
    /// The texts.
    pub calibration: &'a CalibrationOptions,
    /// Budget for the choice of types.
    pub budget: &'a BudgetOptions,
}

/// The type in which all matrices of a checkpoint keep their values.
pub fn lossless(checkpoint: &Checkpoint) -> &'static str {
    let all = |dtype: Dtype| {
        let mut matrices = checkpoint.tensors.iter().filter(|tensor| tensor.shape.len() >= 2);
        matrices.all(|tensor| tensor.dtype == dtype)
    };
    if all(Dtype::BF16) {
        "bf16"
    } else if all(Dtype::F16) {
        "f16"
    } else {
        "f32"
    }
}

/// Writes the intermediate file, and quantizes it to the outputs.
///
/// # Errors
/// Invalid options, an input that cannot be read, an output that cannot be written, an interruption.
pub fn run<I: Input>(
    open: OpenInput<'_, I>,
    job: Calibrated<'_>,
    args: RunArgs<'_>,
    events: &dyn Events,
) -> Result<Outcome, Error> {
    let Calibrated { recipes, between, settings, calibration, budget } = job;
    let (input, format) = (open.path, open.format);
    let requested = Requested::new(recipes.clone(), &settings);
    let Some(paths) = check_paths(&open, &requested, &args)? else {
        return run::run(open, requested, &args, events);
    };
    // An unfinished run may need the intermediate file unchanged.
    gguf_conversion::check_unfinished(&paths, args.force, args.resume)
        .map_err(|error| failure(input, error))?;
    let named = NamedInput { input: &open.input, path: input };
    let budget = &budget.settle(named, &recipes, &settings, &calibration.calibrate, events)?;
    let base = Between::new(paths, events);
    // An unfinished output was made from this file, and its journal identifies the checkpoint.
    let is_there = args.resume && base.path.exists() && gguf_conversion::unfinished(&base.outputs).is_some();
    if !is_there {
        let other = OtherSettings {
            allow_nonfinite: args.options.nonfinite == NonFinite::Allow,
            ..OtherSettings::default()
        };
        let plain = TensorOptions::default().read(
            &RecipeOptions::default(),
            other,
            &HubOptions::default(),
            events,
        )?;
        let is_begun = gguf_conversion::unfinished(std::slice::from_ref(&base.path)).is_some();
        let first = RunArgs {
            out: Some(&base.path),
            force: true,
            resume: args.resume && is_begun,
            gathers: false,
            ..args.clone()
        };
        run::run(open, Requested::new(vec![between], &plain), &first, events)?;
    }
    let model =
        Model::open(&base.path).map_err(|error| failure(&base.path, gguf_conversion::Error::Gguf(error)))?;
    let adapters = &[];
    let job = QuantizeJob {
        families: gguf_models::FAMILIES,
        base: &base.path,
        input,
        adapters,
        format,
        recipes,
        settings,
        calibration,
        budget,
    };
    quantize_model::run(model, job, args, events)
}

/// The temporary GGUF file. It is removed on drop, unless an interrupted run can be resumed, which needs it.
struct Between<'a> {
    path: PathBuf,
    outputs: Vec<PathBuf>,
    events: &'a dyn Events,
}

impl<'a> Between<'a> {
    /// Path next to the first output.
    fn new(outputs: Vec<PathBuf>, events: &'a dyn Events) -> Between<'a> {
        let first = outputs.first().map_or(Path::new(""), |path| path);
        Between { path: hidden_files::base_path_of(first), outputs, events }
    }
}

impl Drop for Between<'_> {
    fn drop(&mut self) {
        if gguf_conversion::unfinished(&self.outputs).is_none() {
            let removed = fs::remove_file(&self.path);
            if let Err(error) = removed
                && self.path.exists()
            {
                let path = self.path.display();
                self.events.warning(format!("{path}: cannot remove temporary file: {error}"));
            }
        }
    }
}

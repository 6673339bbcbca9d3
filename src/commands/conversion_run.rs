//! One run of a conversion: what `gguf-convert` and `gguf-quantize` do alike once the input is open.

use std::path::{Path, PathBuf};

use convert::{
    Choice, Conversion, Error, Input, OutputRequest, PlannedFile, RunOptions, Watch,
    recipes::{Recipe, TensorFacts},
};

use crate::{
    commands::{
        plan_report::{Origin, Report},
        quantize_options::Settings,
    },
    failure::{EXIT_INTERRUPTED, Failure},
    hints,
    ui::{Ui, cancel_on_interrupt, human_bytes},
};

/// An input that is open, in the words of a report.
pub struct OpenInput<'a, I> {
    /// The input.
    pub input: I,
    /// Its path.
    pub path: &'a Path,
    /// Its files, none of which may be written to.
    pub files: &'a [&'a Path],
    /// Its format.
    pub format: &'static str,
    /// What the model is.
    pub architecture: String,
    /// What a person should know.
    pub notes: Vec<String>,
    /// Tensors that have no place in the output.
    pub dropped: Vec<arch::Dropped>,
    /// How it stores what a choice is about.
    pub stored_as: fn(&I, &Choice) -> String,
}

/// What is wanted of a run beside the types.
#[derive(Debug, Clone)]
pub struct RunArgs<'a> {
    /// The output, where one was named.
    pub out: Option<&'a Path>,
    /// Replace files that are there.
    pub force: bool,
    /// Plan, report, write nothing.
    pub dry_run: bool,
    /// Report as JSON.
    pub json: bool,
    /// How to run.
    pub options: RunOptions,
}

/// Plans, checks and writes the files of `recipes`, and says on the way what a person should know.
///
/// # Errors
/// Whatever stopped it, with the path that it is about.
pub fn run<I: Input>(
    open: OpenInput<'_, I>,
    recipes: Vec<&'static Recipe>,
    settings: &Settings,
    args: &RunArgs<'_>,
    ui: &Ui,
) -> Result<(), Failure> {
    let failed = |error| failure(open.path, error);
    let outputs = settings.outputs(recipes)?;
    // Names and shapes are the same for all types.
    let facts_for = outputs.first().map(|output: &OutputRequest| output.recipe);
    let conversion = Conversion::new(open.input).outputs(outputs).request(settings.request());
    let tensors = facts_for.map(|recipe| conversion.input().tensors(recipe)).unwrap_or_default();
    settings.warn_of_patterns(&tensors, ui);
    settings.check_replay(&tensors)?;

    let planned = conversion.plan().map_err(failed)?;
    let paths = planned.paths(args.out).map_err(failed)?;
    // A dry run replaces nothing, so nothing is in its way.
    planned.check_paths(&paths, args.force || args.dry_run).map_err(failed)?;
    let files: Vec<(PathBuf, &PlannedFile)> = paths.iter().cloned().zip(planned.files()).collect();
    open.notes.iter().for_each(|note| ui.note(note));
    for dropped in &open.dropped {
        ui.detail(&format!("tensor `{}` is left out: {}", dropped.name, dropped.reason));
    }
    let coverage = settings.report_coverage(&tensors, &files, ui)?;
    let origin = Origin {
        input: open.path,
        format: open.format,
        architecture: &open.architecture,
        dropped: &open.dropped,
        notes: [open.notes.clone(), coverage].concat(),
        stored_as: &|choice| (open.stored_as)(conversion.input(), choice),
    };
    let report = Report::new(&origin, &files, args.dry_run);
    if args.dry_run {
        settings.save(&tensors, &files, open.files, args.force, ui)?;
        return ui.data(&if args.json { report.json()? } else { report.text() });
    }
    settings.save(&tensors, &files, open.files, args.force, ui)?;
    warn_of_loss(&tensors, &files, ui);
    report.fallbacks().iter().for_each(|line| ui.warning(line));
    let checked = planned.check().map_err(failed)?;

    let cancel = cancel_on_interrupt();
    let progress = ui.progress(checked.input_bytes());
    let watch = Watch { cancel: &cancel, done: &|_, bytes| progress.add(bytes) };
    checked.write_to(&paths, args.force, &args.options, watch).map_err(failed)?;
    drop(progress);
    for (path, file) in paths.iter().zip(checked.planned().files()) {
        let (n_bytes, bits) = (file.plan.file_len(), file.bits_per_weight());
        let (path, size) = (path.display(), human_bytes(n_bytes));
        ui.status(&format!("wrote {path}: {n_bytes} bytes ({size}), {bits:.2} bits/weight"));
    }
    if args.json { ui.data(&report.json()?) } else { Ok(()) }
}

/// An error with advice, and with the path of the input unless it is about something else.
pub fn failure(input: &Path, error: Error) -> Failure {
    let hint = hints::convert(&error);
    match error {
        // These carry a path of their own, or none would help.
        Error::Gguf(
            gguf::Error::Io { .. }
            | gguf::Error::Exists { .. }
            | gguf::Error::NotAFile { .. }
            | gguf::Error::Length { .. },
        )
        | Error::OutputIsInput { .. }
        | Error::OutputInsideInput { .. }
        | Error::NoFolder { .. }
        | Error::UnknownPlaceholder { .. }
        | Error::OneNameForMany { .. } => Failure::new(error),
        Error::Cancelled => Failure { code: EXIT_INTERRUPTED, ..Failure::new(error) },
        error => Failure::at(input, error),
    }
    .hint(hint)
}

/// Says where weights lose precision a second time.
fn warn_of_loss(tensors: &[TensorFacts<'_>], files: &[(PathBuf, &PlannedFile)], ui: &Ui) {
    for (path, file) in files {
        let twice = file.choices.iter().filter(|choice| {
            let from = tensors[choice.tensor].dtype;
            from.is_quantized() && from != choice.dtype
        });
        let n_twice = twice.count();
        if n_twice > 0 {
            ui.warning(&format!(
                "{}: {n_twice} tensors were quantized already; what was lost then stays lost, and more goes",
                path.display()
            ));
        }
    }
}

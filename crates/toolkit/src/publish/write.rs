//! Resumable writing of the files of a stage.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use gguf_conversion::{Conversion, Input, Journaling, Losses, Origin, PlannedFile, Resumed, Watch};
use gguf_types::counted;

use super::{context::Context, interruption::ends_soon};
use crate::{
    error::Error,
    failure::failure,
    loss_report,
    output_files::{say_written, tell, warn_of_leftovers},
};

/// A file that was written.
pub struct Written {
    pub path: PathBuf,
    /// The name of its type.
    pub file_type: &'static str,
}

/// Number of tensors whose rows do not fill blocks of the type that the recipe has for them.
pub fn n_fallbacks(file: &PlannedFile) -> usize {
    file.choices.iter().filter(|choice| choice.fallback.is_some()).count()
}

/// Writes all files of a conversion to a folder. An interrupted run of the same conversion is resumed;
/// leftovers of another are replaced.
pub fn write<I: Input>(
    conversion: &Conversion<'_, I>,
    src: &Path,
    folder: &Path,
    fingerprint: &str,
    context: &Context<'_>,
) -> Result<Vec<Written>, Error> {
    let events = context.events;
    let failed = |error| failure(src, error);
    let planned = conversion.plan().map_err(failed)?;
    let paths = planned.paths(Some(folder)).map_err(failed)?;
    planned.check_paths(&paths, true).map_err(failed)?;
    let checked = planned.check().map_err(failed)?;
    for file in planned.files() {
        file.warnings.iter().for_each(|warning| events.warning(warning));
        let n = n_fallbacks(file);
        if n > 0 {
            let name = file.recipe.canonical_name();
            events.warning(format!(
                "{name}: a larger fallback type in {}, because the row length is not a multiple of the block \
                    size",
                counted(n, "tensor")
            ));
        }
    }
    paths.iter().for_each(|path| warn_of_leftovers(path, events));
    let cancel = events.cancel();
    let _guard = ends_soon(events);
    let progress = events.progress(checked.input_bytes());
    let program = || context.program.clone();
    let options = vec![("stage".to_owned(), fingerprint.to_owned())];
    let origin = Origin { program: &program, options, permissions: Vec::new(), inputs: Vec::new() };
    let on_resume = |event: Resumed| tell(event, events);
    let losses = Arc::new(Losses::default());
    let options_of_run = context.run.clone().losses(losses.clone());
    let run = |resume| {
        let journaling = Journaling { origin: &origin, resume, on_resume: &on_resume };
        let watch = Watch { cancel: &cancel, done: &|_, bytes| progress.add(bytes), ..Watch::default() };
        checked.write_resumable(&paths, true, journaling, &options_of_run, watch)
    };
    let written = match run(true) {
        Err(gguf_conversion::Error::NotResumable { .. }) => run(false),
        written => written,
    };
    drop(progress);
    written.map_err(failed)?;
    loss_report::warn(&losses, events);
    let files: Vec<_> = paths.into_iter().zip(planned.files()).collect();
    say_written(&files, events);
    let written = |(path, file): (PathBuf, &PlannedFile)| Written { path, file_type: file.recipe.name };
    Ok(files.into_iter().map(written).collect())
}

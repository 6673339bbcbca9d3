//! Writes planned files, with progress and messages.

use std::{path::Path, sync::Arc};

use gguf_conversion::{Error as EngineError, Input, Journaling, Losses, Watch};

use super::{checked::Checked, report::Report};
use crate::{
    call::Call,
    error::Error,
    events::Events,
    failure::{failure, resume_hints, resume_with_permission},
    loss_report,
    output_files::{make_folder_of, say_written, tell, warn_of_leftovers},
};

/// Writes checked files, each to its path, with a progress bar, Ctrl-C and a line for each file.
///
/// # Errors
/// As the `write` of the crate `gguf_conversion`.
pub fn write_and_report<I: Input>(
    run: &Checked<'_, I>,
    report: &Report,
    events: &dyn Events,
) -> Result<(), Error> {
    let Checked { conversion, files, input, args } = *run;
    let failed = |error| failure(input, error);
    for line in report.fallbacks() {
        events.warning(&line);
    }
    for (path, _) in files {
        make_folder_of(path).map_err(failed)?;
        warn_of_leftovers(path, events);
    }
    events.detail(format!("kernels of CPU level {}", args.options.level.name()));
    let paths = run.paths();
    let unfinished = gguf_conversion::unfinished(&paths).is_some();
    // A run whose remains are not wanted has no journal, unless it must remove that of another.
    let has_journal = args.resumable || unfinished;
    let program = || args.call.program();
    let origin = if has_journal { args.call.origin(&program)? } else { Call::default().origin(&program)? };
    let journaling =
        Journaling { origin: &origin, resume: args.resume, on_resume: &|event| tell(event, events) };
    if args.resume && !unfinished {
        events.note("nothing to resume, starting from the beginning");
    }
    let cancel = events.cancel();
    let stopped = paths.clone();
    // A slow disk may delay the end of the work.
    let _guard = events.ends_soon(Box::new(move || {
        failure(Path::new(""), EngineError::Cancelled).hint(resume_hints(&stopped))
    }));
    let progress = events.progress(conversion.input_bytes());
    let done = |_: &_, bytes| progress.add(bytes);
    let verify = || args.call.verify_downloads();
    let watch = Watch { cancel: &cancel, done: &done, verify: &verify, ..Watch::default() };
    let losses = Arc::new(Losses::default());
    let options = args.options.clone().losses(losses.clone());
    let written = if has_journal {
        conversion.write_resumable(&paths, args.force, journaling, &options, watch)
    } else {
        conversion.write_to(&paths, args.force, &options, watch)
    };
    // The bar is removed before any message, including an error.
    drop(progress);
    written.map_err(|error| match error {
        // These errors have their own hints, or are about a run of another process.
        EngineError::Unfinished { .. } | EngineError::Busy { .. } | EngineError::NotResumable { .. } => {
            failed(error)
        }
        EngineError::NonFinite { .. } | EngineError::Overflow { .. } if has_journal => {
            failed(error).hint(resume_with_permission(&paths))
        }
        error => failed(error).hint(resume_hints(&paths)),
    })?;
    loss_report::warn(&losses, events);
    say_written(files, events);
    for line in report.repacks() {
        events.status(line);
    }
    Ok(())
}

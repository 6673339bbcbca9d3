//! Writes planned files, with progress and messages.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use gguf_container::Output;
use gguf_conversion::{CheckedConversion, Input, Journaling, Losses, Origin, PlannedFile, Resumed, Watch};

use crate::{
    conversion_run::{RunArgs, failure, resume_hints},
    error::Error,
    events::Events,
    loss_report,
    plan_report::Report,
    text::{human_bytes, human_duration},
};

/// True if OUT is given as a folder (`out/`) that does not exist yet. It is created before the first file is
/// written.
pub fn is_new_folder(out: Option<&Path>) -> bool {
    let ends_like_a_folder = |out: &Path| {
        let last = out.as_os_str().as_encoded_bytes().last();
        last.is_some_and(|last| std::path::is_separator(char::from(*last)))
    };
    out.is_some_and(|out| ends_like_a_folder(out) && fs::symlink_metadata(out).is_err())
}

/// Checks that `path`, which `out` led to, can be written without touching the folder that is read.
///
/// # Errors
/// As [`gguf_conversion::check_output`].
pub fn check_output(
    path: &Path,
    out: Option<&Path>,
    input: &Path,
    force: bool,
) -> Result<(), gguf_conversion::Error> {
    if !is_new_folder(out) {
        return gguf_conversion::check_output(path, input, force);
    }
    // For a folder that will be created, its nearest existing ancestor must not be the input or inside it.
    let there = path.ancestors().skip(1).find_map(|folder| {
        fs::canonicalize(if folder.as_os_str().is_empty() { Path::new(".") } else { folder }).ok()
    });
    match (there, fs::canonicalize(input)) {
        (Some(there), Ok(input)) if there.starts_with(&input) => {
            Err(gguf_conversion::Error::OutputInsideInput { path: path.to_owned() })
        }
        _ => Ok(()),
    }
}

/// Makes the folder of a file, if it is not there.
///
/// # Errors
/// An error of the operating system.
pub fn make_folder_of(path: &Path) -> Result<(), gguf_conversion::Error> {
    let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) else { return Ok(()) };
    fs::create_dir_all(folder).map_err(|source| {
        gguf_conversion::Error::Gguf(gguf_container::Error::Io {
            action: "make",
            path: folder.to_owned(),
            offset: None,
            source,
        })
    })
}

/// Writes checked files, each to its path, with a progress bar, Ctrl-C and a line for each file.
///
/// # Errors
/// As the `write` of the crate `gguf_conversion`.
pub fn write_and_report<I: Input>(
    checked: &CheckedConversion<'_, I>,
    files: &[(PathBuf, &PlannedFile)],
    input: &Path,
    args: &RunArgs<'_>,
    report: &Report,
    events: &dyn Events,
) -> Result<(), Error> {
    let failed = |error| failure(input, error);
    for line in report.fallbacks() {
        events.warning(&line);
    }
    for (path, _) in files {
        make_folder_of(path).map_err(failed)?;
        warn_of_leftovers(path, events);
    }
    events.detail(&format!("kernels of CPU level {}", args.options.level.name()));
    let paths: Vec<PathBuf> = files.iter().map(|(path, _)| path.clone()).collect();
    let (inputs, options) = (args.call.inputs()?, args.call.options.clone());
    let origin = Origin { program: &|| args.call.program(), options, inputs };
    let journaling =
        Journaling { origin: &origin, resume: args.call.resume, on_resume: &|event| tell(event, events) };
    if args.call.resume && gguf_conversion::unfinished(&paths).is_none() {
        events.note("nothing to resume, starting from the beginning");
    }
    let cancel = events.cancel();
    let stopped = paths.clone();
    // A slow disk may delay the end of the work.
    let _guard = events.ends_soon(Box::new(move || {
        failure(Path::new(""), gguf_conversion::Error::Cancelled).hint(resume_hints(&stopped))
    }));
    let progress = events.progress(checked.input_bytes());
    let watch = Watch { cancel: &cancel, done: &|_, bytes| progress.add(bytes), sources: &[] };
    let losses = Arc::new(Losses::default());
    let options = args.options.clone().losses(losses.clone());
    let written = checked.write_resumable(&paths, args.force, journaling, &options, watch);
    // The bar is removed before any message, including an error.
    drop(progress);
    written.map_err(|error| match error {
        // These errors have their own hints, or are about a run of another process.
        gguf_conversion::Error::Unfinished { .. } | gguf_conversion::Error::Busy { .. } => failed(error),
        gguf_conversion::Error::NotResumable { .. } => failed(error)
            .hint(["run the command again to continue, or use --force without --resume to start over"]),
        error => failed(error).hint(resume_hints(&paths)),
    })?;
    loss_report::warn(&losses, events);
    say_written(files, events);
    for line in report.repacks() {
        events.status(line);
    }
    Ok(())
}

/// Reports the written files.
pub fn say_written(files: &[(PathBuf, &PlannedFile)], events: &dyn Events) {
    for (path, file) in files {
        let (n_bytes, bits) = (file.plan.file_len(), file.bits_per_weight());
        let (path, size) = (path.display(), human_bytes(n_bytes));
        events.status(&format!("wrote {path}: {n_bytes} bytes ({size}), {bits:.2} bits/weight"));
    }
}

/// Reports the progress of an earlier run.
pub fn tell(resumed: Resumed, events: &dyn Events) {
    let Resumed { done_bytes, wrong_bytes, total_bytes, .. } = resumed;
    let (done, total) = (human_bytes(done_bytes), human_bytes(total_bytes));
    events.note(&format!("resuming: {done} of {total} verified"));
    if wrong_bytes > 0 {
        let wrong = human_bytes(wrong_bytes);
        events.warning(&format!("{wrong} of the earlier run failed verification and are converted again"));
    }
}

/// Names temporary files that dead processes left on the way to the same output. They are not removed: where
/// several machines share a folder, the process may live on another one.
pub fn warn_of_leftovers(path: &Path, events: &dyn Events) {
    for leftover in Output::leftovers(path) {
        let age = leftover.age.map_or_else(String::new, |age| format!(", {} old", human_duration(age)));
        let remove = if leftover.path.is_dir() { "rm -r" } else { "rm" };
        events.warning(&format!(
            "{}: {}{age}, left by a killed run; unless another machine is writing it, remove it with `{remove}`",
            leftover.path.display(),
            human_bytes(leftover.n_bytes)
        ));
    }
}

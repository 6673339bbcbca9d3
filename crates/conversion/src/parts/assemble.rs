//! Assembles the parts of a run.

use std::{
    fs,
    path::{Path, PathBuf},
};

use gguf_container::{Claim, Output, PartNumber, Plan, check_open_files};

use super::{
    names::{self, Place, part_path},
    same_plan,
};
use crate::{
    Error,
    job::{JOB_ELEMS, Schedule, TensorTask},
    journal::{Done, Fingerprint, Found, Journal, Remaining},
    output::{place, prepare},
    resume::{at, exists, report_done, write_frame},
    run::Watch,
    run_options::RunOptions,
    verify::verify,
};

/// A part that is complete according to its journal.
struct Whole<'a> {
    number: PartNumber,
    place: Place,
    done: Vec<Done>,
    /// Held until the end, so that no process runs the part again meanwhile.
    journal: Journal<'a>,
}

/// Checks all parts of a run and gives the outputs their names. Files of parts and their journals are removed at the end.
///
/// # Errors
/// [`Error::NoParts`], [`Error::PartsDiffer`], [`Error::PartsMissing`], [`Error::Busy`] if a part is running,
/// [`Error::OtherPlan`], [`Error::PartGap`] if rows are missing, [`Error::PartDamaged`] if bytes differ from
/// those written; existing outputs without `force`, changed sources, and system errors. After an error no
/// output has its final name.
pub fn assemble(
    tasks: &[TensorTask<'_>],
    files: &[(&Path, &Plan)],
    fingerprint: &Fingerprint,
    force: bool,
    options: &RunOptions,
    watch: Watch<'_>,
) -> Result<(), Error> {
    let Some((first, _)) = files.first() else { return Ok(()) };
    let describe = || fingerprint.clone();
    // Files of one part are open in addition to the outputs.
    check_open_files(2 * files.len())?;
    let parts = open(first, fingerprint, &describe)?;
    check_coverage(tasks, &parts)?;
    let mut outputs = Vec::with_capacity(files.len());
    for (path, plan) in files {
        outputs.push(claim(path, plan.file_len(), force)?);
    }
    // Copy before comparing, so that the copies are checked too.
    for part in parts.iter().filter(|part| part.place == Place::OwnFile) {
        copy(part, tasks, files, &outputs, watch)?;
    }
    write_frame(files, &outputs)?;
    compare(&parts, tasks, files, &outputs, options, watch)?;
    // From here on, only renaming and the disk can fail.
    prepare(&outputs, watch)?;
    place(&mut outputs)?;
    // Last, so that an interrupted call leaves everything as it was.
    for part in parts {
        if part.place == Place::OwnFile {
            // If removing fails, the file stays.
            files.iter().for_each(|(path, _)| drop(fs::remove_file(part_path(path, part.number))));
        }
        part.journal.remove();
    }
    Ok(())
}

/// Locks and reads the journals of all parts.
fn open<'a>(
    first: &Path,
    fingerprint: &Fingerprint,
    describe: &'a (dyn Fn() -> Fingerprint + Sync),
) -> Result<Vec<Whole<'a>>, Error> {
    let journals = names::journals(first);
    let Some(((some, _), _)) = journals.first_key_value() else {
        return Err(Error::NoParts { path: first.to_owned() });
    };
    // The existing parts determine the number of parts and must agree.
    let count = some.count();
    if let Some((other, path)) = journals.keys().find(|(number, _)| number.count() != count) {
        return Err(Error::PartsDiffer { path: path.clone(), found: other.count(), expected: count });
    }
    let (mut parts, mut missing) = (Vec::new(), Vec::new());
    for number in (1..=count).filter_map(|number| PartNumber::new(number, count)) {
        // Check all parts before reporting an error, so that it lists everything that is missing.
        let (mut whole, mut state) = (None, "not started".to_owned());
        for ((_, path), place) in journals.iter().filter(|((found, _), _)| *found == number) {
            let (journal, found) =
                Journal::open(path, describe).map_err(|error| at(error, &part_path(first, number)))?;
            let Some(found) = found.filter(Found::is_resumable) else { continue };
            same_plan(&found, fingerprint, path)?;
            if !found.is_whole {
                state = format!("interrupted after {} bytes", found.done_bytes());
            } else if whole.is_none() {
                // A part may have been written in both places; one complete copy is enough.
                whole = Some(Whole { number, place: *place, done: found.done, journal });
            }
        }
        match whole {
            Some(part) => parts.push(part),
            None => missing.push((number.number(), state)),
        }
    }
    if missing.is_empty() {
        Ok(parts)
    } else {
        Err(Error::PartsMissing { path: first.to_owned(), count, missing })
    }
}

/// Checks that the parts contain every row of every tensor.
fn check_coverage(tasks: &[TensorTask<'_>], parts: &[Whole<'_>]) -> Result<(), Error> {
    // Shares follow from the plan, so this only fails for parts of another program version.
    let all: Vec<Done> = parts.iter().flat_map(|part| &part.done).cloned().collect();
    let remaining = Remaining::without(&all, tasks.len());
    let schedule = Schedule::new(tasks, JOB_ELEMS);
    match schedule.jobs().find(|job| remaining.has(job)) {
        None => Ok(()),
        Some(job) => Err(Error::PartGap { tensor: tasks[job.task].name.clone(), row: job.rows.start }),
    }
}

/// Temporary file of an output, or the output itself if an earlier call already renamed it.
fn claim(path: &Path, len: u64, force: bool) -> Result<Output, Error> {
    match Output::claim(path, len, force, Claim::GoOn) {
        Ok(output) => Ok(output),
        // An earlier call may have been interrupted between two renames, so some outputs have their final
        // names. Header and checksums of all parts decide whether the file is ours.
        Err(gguf_container::Error::Exists { .. }) if !Output::temporary_path_of(path).exists() => {
            Output::in_place(path, len).map_err(|_| exists(path))
        }
        Err(error) => Err(at(Error::Gguf(error), path)),
    }
}

/// Copies a part's own files to the outputs, without reading if the file system can share blocks.
fn copy(
    part: &Whole<'_>,
    tasks: &[TensorTask<'_>],
    files: &[(&Path, &Plan)],
    outputs: &[Output],
    watch: Watch<'_>,
) -> Result<(), Error> {
    // All files of the part are opened before the first byte is copied, so that a missing file is reported at
    // once.
    let mut own = Vec::with_capacity(files.len());
    for (path, plan) in files {
        own.push(Output::in_place(&part_path(path, part.number), plan.file_len())?);
    }
    for done in &part.done {
        // A range is at most what one checkpoint wrote: some seconds of work.
        if watch.cancel.load(std::sync::atomic::Ordering::Relaxed) {
            return Err(Error::Cancelled);
        }
        let damaged = || damaged(part, done, tasks, files);
        for ((output, offset, _), span) in
            done.places(tasks).ok_or_else(damaged)?.into_iter().zip(&done.spans)
        {
            // The journal's rows are checked against the tasks, but not yet against the files of this run.
            let to = outputs.get(output).ok_or_else(damaged)?;
            if !to.is_in_place() {
                to.copy_from(&own[output], offset, span.n_bytes)?;
            }
        }
    }
    Ok(())
}

fn compare(
    parts: &[Whole<'_>],
    tasks: &[TensorTask<'_>],
    files: &[(&Path, &Plan)],
    outputs: &[Output],
    options: &RunOptions,
    watch: Watch<'_>,
) -> Result<(), Error> {
    let schedule = Schedule::new(tasks, JOB_ELEMS);
    let n_threads = options.n_threads(&schedule);
    // Part by part, so that progress follows the work; ranges within a part are read in parallel.
    let mut right = Vec::new();
    for part in parts {
        let found = verify(part.done.clone(), tasks, outputs, options, n_threads, watch.cancel)?;
        found.iter().for_each(|done| report_done(done, tasks, watch));
        right.extend(found);
    }
    // An interrupted part may have recomputed some rows: earlier journal entries for them are void.
    let wrong = Remaining::without(&right, tasks.len());
    let Some(job) = schedule.jobs().find(|job| wrong.has(job)) else { return Ok(()) };
    // A file that had its name before this call is not ours.
    if let Some((_, (path, _))) = outputs.iter().zip(files).find(|(output, _)| output.is_in_place()) {
        return Err(exists(path));
    }
    let covers_job = |done: &Done| done.task == job.task && done.rows.contains(&job.rows.start);
    let mut claimed = parts.iter().flat_map(|part| part.done.iter().map(move |done| (part, done)));
    let claimed = claimed.find(|(_, done)| covers_job(done) && !right.contains(done));
    Err(match claimed {
        Some((part, done)) => damaged(part, done, tasks, files),
        None => Error::PartGap { tensor: tasks[job.task].name.clone(), row: job.rows.start },
    })
}

fn damaged(part: &Whole<'_>, done: &Done, tasks: &[TensorTask<'_>], files: &[(&Path, &Plan)]) -> Error {
    let path = files.first().map_or_else(PathBuf::new, |(path, _)| part_path(path, part.number));
    let tensor =
        tasks.get(done.task).map_or_else(|| format!("number {}", done.task), |task| task.name.clone());
    Error::PartDamaged { path, tensor, rows: done.rows.clone() }
}

//! Writes one part of a run.

use std::{
    fs,
    path::{Path, PathBuf},
};

use gguf_container::{Claim, Output, PartNumber, Plan, check_open_files};

use super::{
    names::{self, Place, part_path},
    same_plan,
    share::{Rates, Share},
};
use crate::{
    Error,
    job::{JOB_ELEMS, Schedule, TensorTask},
    journal::{Fingerprint, Journal, Remaining},
    output::{place, prepare},
    resume::{Resumed, at, intact},
    run::{Watch, run_with},
    run_options::RunOptions,
};

/// One part of a run.
#[derive(Clone, Copy)]
pub struct Part<'a> {
    /// Number of the part.
    pub number: PartNumber,
    /// Destination of its rows.
    pub place: Place,
    /// Costs that determine the shares, from the plan.
    pub rates: &'a Rates,
    /// Fingerprint of everything that determines the bytes, from the plan. The caller has compared it with
    /// this run's.
    pub fingerprint: &'a Fingerprint,
    /// Called before work begins, if the part was interrupted before.
    pub on_resume: &'a dyn Fn(Resumed),
}

impl std::fmt::Debug for Part<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Part")
            .field("number", &self.number)
            .field("place", &self.place)
            .finish_non_exhaustive()
    }
}

/// Outcome of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    /// Written by this call.
    Now,
    /// Complete already, according to the journal.
    Before,
}

/// Input bytes of a share, for progress.
pub fn share_bytes(tasks: &[TensorTask<'_>], rates: &Rates, number: PartNumber) -> u64 {
    let schedule = Schedule::new(tasks, JOB_ELEMS);
    let share = Share::new(tasks, &schedule, rates, number);
    // Two million jobs for a terabyte, computed one by one: at most a second.
    let jobs = schedule.jobs().filter(|job| share.has(job));
    jobs.map(|job| tasks[job.task].rows.input_bytes(job.rows.end - job.rows.start)).sum()
}

/// Writes a part of a run. With `force` it starts over, and outputs may exist.
///
/// # Errors
/// Those of [`run`](crate::run()); [`Error::Busy`] if another process writes the same part,
/// [`Error::PartsDiffer`] if parts for another number exist, [`Error::OtherPlan`] if this part was started
/// from another plan, and errors of creating files.
pub fn write_part(
    tasks: &[TensorTask<'_>],
    files: &[(&Path, &Plan)],
    part: &Part<'_>,
    force: bool,
    options: &RunOptions,
    watch: Watch<'_>,
) -> Result<Written, Error> {
    let Some((first, _)) = files.first() else { return Ok(Written::Before) };
    // Before the lock: if other parts are cut differently, do not even create a journal.
    names::check_count(first, part.number)?;
    let journal_path = names::journal_path(first, part.number, part.place);
    let fingerprint = || part.fingerprint.clone();
    let (journal, found) = Journal::open(&journal_path, &fingerprint)
        .map_err(|error| at(error, &part_path(first, part.number)))?;
    // Parts do not lock the file that they share. This check comes after taking the journal's lock, so that
    // if a part and an undivided run start together, at least one sees the other.
    if part.place == Place::Shared {
        Journal::inspect(&Journal::path_of(first)).map_err(|error| at(error, first))?;
    }
    let journal = journal.for_others();
    // A journal without rows is not binding.
    let earlier = found.filter(|found| found.is_resumable() && !force);
    // Rows of another plan may have other offsets: resuming would mix both.
    if let Some(found) = &earlier {
        same_plan(found, part.fingerprint, &journal_path)?;
    }
    let paths: Vec<PathBuf> = files
        .iter()
        .map(|(path, _)| match part.place {
            Place::Shared => path.to_path_buf(),
            Place::OwnFile => part_path(path, part.number),
        })
        .collect();
    // A scheduler may restart a finished part because it missed the end, or a node may have lost the file in
    // a power cut: the journal is not sufficient evidence.
    if earlier.as_ref().is_some_and(|found| found.is_whole) && exists(&paths, part.place) {
        return Ok(Written::Before);
    }
    check_open_files(files.len())?;
    // The journal comes first, so that other processes see that this part is taken.
    match &earlier {
        Some(found) => journal.resume(found, &paths)?,
        None => journal.begin(&paths)?,
    }
    let mut outputs = claimed(&paths, files, part.place, force)?;
    // Every machine needs the same schedule: complete rows in jobs of equal size, regardless of the number of
    // cores.
    let schedule = Schedule::new(tasks, JOB_ELEMS);
    let total_bytes = part.fingerprint.output_bytes();
    let done = match &earlier {
        Some(found) => intact(found, tasks, &outputs, options, watch, total_bytes, part.on_resume)?,
        None => Vec::new(),
    };
    // Jobs are those of an undivided run, so that neither rows nor bytes depend on the number of parts.
    let remaining = Remaining::without(&done, tasks.len());
    let share = Share::new(tasks, &schedule, part.rates, part.number);
    let schedule = schedule.only(|job| share.has(job) && remaining.has(job));
    if let Err(error) = run_with(tasks, &schedule, &outputs, Some(&journal), options, watch) {
        // Records the work since the last line, in case the system survives. The first error matters more
        // than an error here.
        let _ = journal.checkpoint(None);
        return Err(error);
    }
    match part.place {
        // The assembling call gives the file its name.
        Place::Shared => {
            outputs.iter().try_for_each(Output::sync_so_far)?;
            watch.check()?;
            journal.whole()?;
        }
        // The journal is complete before the file is renamed: a named file without a complete journal would
        // be useless.
        Place::OwnFile => {
            prepare(&outputs, watch)?;
            journal.whole()?;
            place(&mut outputs)?;
        }
    }
    Ok(Written::Now)
}

/// Outputs at `paths`. Space of a shared file is reserved by the first part; reserving for own files of all parts would take N times
/// the space.
fn claimed(
    paths: &[PathBuf],
    files: &[(&Path, &Plan)],
    place: Place,
    force: bool,
) -> Result<Vec<Output>, Error> {
    let claim = match place {
        Place::Shared => Claim::Parts,
        Place::OwnFile => Claim::Sparse,
    };
    let mut outputs = Vec::with_capacity(files.len());
    for (path, (final_path, plan)) in paths.iter().zip(files) {
        // Claiming a shared file detects an existing output; the name of an own file does not.
        if place == Place::OwnFile && !force && fs::symlink_metadata(final_path).is_ok() {
            return Err(Error::Gguf(gguf_container::Error::Exists { path: final_path.to_path_buf() }));
        }
        outputs.push(Output::claim(path, plan.file_len(), force, claim)?);
    }
    Ok(outputs)
}

/// True if all files of a complete part are in place.
fn exists(paths: &[PathBuf], place: Place) -> bool {
    paths.iter().all(|path| match place {
        Place::Shared => Output::temporary_path_of(path).exists(),
        // It gets this name when it is complete.
        Place::OwnFile => path.exists(),
    })
}

//! Writes files so that a later run can resume an interrupted one.
//!
//! Steps: lock the outputs; accept or refuse the remains of an earlier run; check disk space; verify the rows
//! in the journal; do the rest; rename all files.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::Ordering,
};

use gguf_container::{Claim, Output, Plan, check_open_files, check_space};

use crate::{
    Error,
    job::{JOB_ELEMS, Job, Schedule, TensorTask},
    journal::{Done, Fingerprint, Found, Journal, Origin, Remaining, n_bytes},
    output::{place, prepare},
    run::{Watch, run_with},
    run_options::RunOptions,
    verify::verify,
};

/// Treatment of an earlier run, and data for a later one.
#[derive(Clone, Copy)]
pub struct Journaling<'a> {
    /// Everything besides the plan that determines the bytes.
    pub origin: &'a Origin<'a>,
    /// True to resume an earlier run, if there is one.
    pub resume: bool,
    /// Called before work begins, if there is an earlier run.
    pub on_resume: &'a dyn Fn(Resumed),
}

impl std::fmt::Debug for Journaling<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Journaling").field("resume", &self.resume).finish_non_exhaustive()
    }
}

/// Progress of an earlier run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Resumed {
    /// Valid bytes of the outputs.
    pub done_bytes: u64,
    /// Bytes listed in its journal that are invalid and will be written again.
    pub wrong_bytes: u64,
    /// Bytes of all outputs.
    pub total_bytes: u64,
}

/// Like [`write()`](crate::write()), but with a journal. If the run is interrupted, or fails because of
/// values that an option permits, temporary files and journal stay for a later run. They are removed if a
/// later run would fail as well, for example after a change of the sources.
///
/// # Errors
/// Those of [`write()`](crate::write()). [`Error::Busy`] if another process writes one of the files;
/// [`Error::Unfinished`] if an earlier run was interrupted and neither `journaling.resume` nor `force` is
/// given; [`Error::NotResumable`] if its inputs or options differ.
pub fn write_resumable(
    tasks: &[TensorTask<'_>],
    files: &[(&Path, &Plan)],
    force: bool,
    journaling: Journaling<'_>,
    options: &RunOptions,
    watch: Watch<'_>,
) -> Result<(), Error> {
    let paths: Vec<PathBuf> = files.iter().map(|(path, _)| path.to_path_buf()).collect();
    let Some(first) = paths.first() else { return Ok(()) };
    let fingerprint = || Fingerprint::new(journaling.origin, watch.sources, tasks, files);
    let journal_path = Journal::path_of(first);
    let (journal, found) = Journal::open(&journal_path, &fingerprint).map_err(|error| at(error, first))?;
    // After taking the lock: a part of this run that has just started has not locked the output itself.
    Journal::check_others(&paths).inspect_err(|_| journal.remove_empty())?;
    let mut earlier = found.filter(Found::is_resumable);
    if let Some(found) = &earlier {
        let run = || Box::new(found.unfinished(&journal_path));
        if journaling.resume {
            let now = fingerprint();
            let (differences, advice) = (found.differences(&now), found.advice(&now));
            if !differences.is_empty() {
                return Err(Error::NotResumable { path: first.clone(), differences, advice, run: run() });
            }
        } else if force {
            // Outputs of the earlier run that are not among ours would stay forever.
            run().files.iter().skip(1).for_each(|path| drop(fs::remove_file(path)));
            earlier = None;
        } else {
            return Err(Error::Unfinished { path: first.clone(), run: run() });
        }
    }
    let run = Run { tasks, files, force, options, watch, journaling };
    let mut outputs = Vec::with_capacity(files.len());
    let written = run.write(&journal, earlier.as_ref(), &paths, &mut outputs);
    match written {
        Ok(()) => {
            journal.remove();
            Ok(())
        }
        Err(error) => {
            if is_worth_keeping(&error) {
                // Work since the last entry, which is valid while the system runs. The original error matters
                // more than one from here.
                let _ = journal.checkpoint(None);
            }
            let has_rows = journal.is_resumable() && is_worth_keeping(&error);
            // If not all outputs were opened, no existing file was changed.
            let all_open = outputs.len() == files.len();
            if !(has_rows || (earlier.is_some() && !all_open)) {
                outputs.into_iter().for_each(Output::discard);
                journal.remove();
            }
            Err(error)
        }
    }
}

/// Fails if [`write_resumable`] would fail because of existing outputs. For callers that first do hours of
/// work or write data that an earlier run needs.
///
/// # Errors
/// [`Error::Busy`], and [`Error::Unfinished`] without `force` or `resume`.
pub fn check_unfinished(paths: &[PathBuf], force: bool, resume: bool) -> Result<(), Error> {
    let Some(first) = paths.first() else { return Ok(()) };
    Journal::check_others(paths)?;
    let path = Journal::path_of(first);
    let found = Journal::inspect(&path).map_err(|error| at(error, first))?;
    match found.filter(|found| found.is_resumable() && !force && !resume) {
        Some(found) => Err(Error::Unfinished { path: first.clone(), run: Box::new(found.unfinished(&path)) }),
        None => Ok(()),
    }
}

/// True if another run could get further than one that ended with this error.
fn is_worth_keeping(error: &Error) -> bool {
    match error {
        // Permitted by options.
        Error::NonFinite { .. } | Error::Overflow { .. } => true,
        // A non-finite scale in the input cannot be permitted.
        Error::Read(gguf_checkpoint::ReadError::NoValue { .. }) => false,
        Error::Cancelled | Error::Read(_) | Error::Source(_) => true,
        Error::Gguf(error) => !matches!(error, gguf_container::Error::Changed { .. }),
        _ => false,
    }
}

/// Attributes the error to the output instead of one of its hidden files.
pub(crate) fn at(error: Error, output: &Path) -> Error {
    match error {
        Error::Busy { process, host, began, .. } => {
            Error::Busy { path: output.to_owned(), process, host, began }
        }
        Error::Gguf(gguf_container::Error::Busy { .. }) => {
            Error::Gguf(gguf_container::Error::Busy { path: output.to_owned() })
        }
        error => error,
    }
}

struct Run<'a> {
    tasks: &'a [TensorTask<'a>],
    files: &'a [(&'a Path, &'a Plan)],
    force: bool,
    options: &'a RunOptions,
    watch: Watch<'a>,
    journaling: Journaling<'a>,
}

impl Run<'_> {
    /// Opens `outputs`, writes the rows that `earlier` lacks, and renames the files.
    fn write(
        &self,
        journal: &Journal<'_>,
        earlier: Option<&Found>,
        paths: &[PathBuf],
        outputs: &mut Vec<Output>,
    ) -> Result<(), Error> {
        // First, so that other processes see the owner of these outputs.
        match earlier {
            Some(found) => journal.resume(found, paths)?,
            None => journal.begin(paths)?,
        }
        self.open(earlier, outputs)?;
        write_frame(self.files, outputs)?;
        let mut schedule = Schedule::new(self.tasks, JOB_ELEMS);
        let total_bytes = self.files.iter().map(|(_, plan)| plan.file_len()).sum();
        let on_resume = self.journaling.on_resume;
        let done = earlier.map_or_else(
            || Ok(Vec::new()),
            |found| intact(found, self.tasks, outputs, self.options, self.watch, total_bytes, on_resume),
        )?;
        let remaining = Remaining::without(&done, self.tasks.len());
        if !done.is_empty() {
            schedule = schedule.only(|job| remaining.has(job));
        }
        self.check_placed(&schedule, outputs)?;
        run_with(self.tasks, &schedule, outputs, Some(journal), self.options, self.watch)?;
        prepare(outputs, self.watch)?;
        // A single rename is atomic. If the machine stops, only some of several files may have their names.
        if outputs.len() > 1 {
            journal.whole()?;
        }
        place(outputs)
    }

    /// Opens the temporary files: those of the earlier run, or new ones.
    fn open(&self, earlier: Option<&Found>, outputs: &mut Vec<Output>) -> Result<(), Error> {
        let temporary: Vec<PathBuf> =
            self.files.iter().map(|(path, _)| Output::temporary_path_of(path)).collect();
        let has_name = |index: usize| {
            let path: &Path = self.files[index].0;
            earlier.is_some_and(|found| found.is_whole) && !temporary[index].exists() && path.exists()
        };
        let needed = temporary.iter().zip(self.files).enumerate().filter(|(index, _)| !has_name(*index));
        let needed: Vec<(&Path, u64)> =
            needed.map(|(_, (path, (_, plan)))| (path.as_path(), plan.file_len())).collect();
        check_open_files(self.files.len())?;
        check_space(&needed)?;
        let claim = if earlier.is_some() { Claim::GoOn } else { Claim::Anew };
        for (index, (path, plan)) in self.files.iter().enumerate() {
            let output = if has_name(index) {
                Output::in_place(path, plan.file_len()).map_err(|_| exists(path))
            } else {
                let claimed = Output::claim(path, plan.file_len(), self.force, claim);
                claimed.map_err(|error| at(Error::Gguf(error), path))
            };
            match output {
                Ok(output) => outputs.push(output),
                Err(error) => {
                    if claim == Claim::Anew {
                        outputs.drain(..).for_each(Output::discard);
                    }
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Refuses to write to a file that has its name: if rows are missing, the earlier run did not write it.
    fn check_placed(&self, schedule: &Schedule, outputs: &[Output]) -> Result<(), Error> {
        if outputs.iter().all(|output| !output.is_in_place()) {
            return Ok(());
        }
        for job in schedule.jobs() {
            // Cancelling sets the same flag.
            if self.watch.cancel.load(Ordering::Relaxed) {
                return Err(Error::Cancelled);
            }
            let targets = self.tasks[job.task].targets.iter();
            if let Some(target) = targets.into_iter().find(|target| outputs[target.output].is_in_place()) {
                return Err(exists(self.files[target.output].0));
            }
        }
        Ok(())
    }
}

/// Rows of an earlier run that are intact on disk. Reports them as progress; all others are written again.
pub(crate) fn intact(
    found: &Found,
    tasks: &[TensorTask<'_>],
    outputs: &[Output],
    options: &RunOptions,
    watch: Watch<'_>,
    total_bytes: u64,
    on_resume: &dyn Fn(Resumed),
) -> Result<Vec<Done>, Error> {
    let n_threads = options.n_threads(&Schedule::new(tasks, JOB_ELEMS));
    let done = verify(found.done.clone(), tasks, outputs, options, n_threads, watch.cancel)?;
    let done_bytes = n_bytes(&done);
    let wrong_bytes = found.done_bytes().saturating_sub(done_bytes);
    on_resume(Resumed { done_bytes, wrong_bytes, total_bytes });
    done.iter().for_each(|done| report_done(done, tasks, watch));
    Ok(done)
}

/// Reports rows that need not be written as progress.
pub(crate) fn report_done(done: &Done, tasks: &[TensorTask<'_>], watch: Watch<'_>) {
    // Progress counts input.
    let rows = done.rows.clone();
    let input_bytes = tasks[done.task].rows.input_bytes(rows.end - rows.start);
    (watch.done)(&Job { task: done.task, rows }, input_bytes);
}

/// Writes headers and padding, which no journal covers. A file that already has its name must contain both.
pub(crate) fn write_frame(files: &[(&Path, &Plan)], outputs: &[Output]) -> Result<(), Error> {
    for (output, (path, plan)) in outputs.iter().zip(files) {
        for (offset, bytes) in plan.fixed_bytes() {
            if output.is_in_place() {
                let mut found = vec![0; bytes.len()];
                output.read_at(offset, &mut found)?;
                if found != bytes {
                    return Err(exists(path));
                }
            } else {
                output.write_at(offset, bytes)?;
            }
        }
        for tensor in plan.tensors() {
            // Less than the alignment.
            let (offset, padding) = (tensor.offset + tensor.n_bytes, tensor.padded_bytes - tensor.n_bytes);
            let mut zeros = vec![0; padding as usize];
            if !output.is_in_place() {
                output.write_at(offset, &zeros)?;
                continue;
            }
            output.read_at(offset, &mut zeros)?;
            if zeros.iter().any(|byte| *byte != 0) {
                return Err(exists(path));
            }
        }
    }
    Ok(())
}

pub(crate) fn exists(path: &Path) -> Error {
    Error::Gguf(gguf_container::Error::Exists { path: path.to_owned() })
}

//! Tensors to be written, cut into jobs of about one megabyte.

use std::{
    ops::Range,
    sync::atomic::{AtomicU64, Ordering},
};

use gguf_container::{Advice, Endian};
use gguf_types::DType;

use crate::{row_encoder::RowEncoder, rows::RowSource};

/// One tensor with its source and its targets, which share one read.
#[derive(Debug)]
pub struct TensorTask<'a> {
    /// Name in the output, for messages.
    pub name: String,
    /// Source of its values.
    pub rows: Box<dyn RowSource + 'a>,
    /// Type that values are rounded to before anything else (`--via`).
    pub via: Option<DType>,
    /// Its destinations.
    pub targets: Vec<Target<'a>>,
    /// Encoder that may modify the encoded blocks.
    pub encoder: Option<&'a dyn RowEncoder>,
}

impl<'a> TensorTask<'a> {
    /// A task without targets.
    pub fn new(name: String, rows: Box<dyn RowSource + 'a>) -> TensorTask<'a> {
        TensorTask::rounded(name, rows, None)
    }

    /// A task without targets that rounds values to `via`, if given.
    pub fn rounded(name: String, rows: Box<dyn RowSource + 'a>, via: Option<DType>) -> TensorTask<'a> {
        TensorTask { name, rows, via, targets: Vec::new(), encoder: None }
    }

    /// The encoder, if it applies to targets of this type.
    pub(crate) fn encoder_of(&self, dtype: DType) -> Option<&'a dyn RowEncoder> {
        self.encoder.filter(|encoder| dtype.is_quantized() && encoder.applies_to(&self.name, dtype))
    }
}

/// Importance weights of the columns of a tensor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Weights<'a> {
    /// One for every column.
    Ones,
    /// Weights of an importance matrix. Rows of one expert share a row of weights.
    Rows {
        /// (n_experts, row_elems) f32, row-major.
        values: &'a [f32],
        /// Rows of the tensor per expert; all rows without experts.
        rows_per_expert: u64,
    },
}

/// Position of one tensor in one output.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Target<'a> {
    /// Index into the outputs of the run.
    pub output: usize,
    /// Type to encode to.
    pub dtype: DType,
    /// Byte order of that file.
    pub endian: Endian,
    /// Offset of the tensor's data in that file.
    pub offset: u64,
    /// Importance weights, if available and used by the type.
    pub weights: Option<Weights<'a>>,
}

/// Rows of one tensor, read once and written to all targets. Threads and journals work in units of jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// Index into the tasks of the run.
    pub task: usize,
    /// Rows, as [`RowSource::view`] counts them.
    pub rows: Range<u64>,
}

/// Maximum number of elements per job, except for one row or a panel of columns. 1 MiB of f32 stays in the
/// second-level cache between reading, encoding and writing, and takes milliseconds even in the slow formats,
/// so that threads finish together.
pub const JOB_ELEMS: u64 = 256 * 1024;

/// Rows of one job of `task` that has `job_elems` elements at most, or
/// [`least_rows`](crate::Granularity::least_rows) if that is more.
pub(crate) fn rows_per_job(task: &TensorTask<'_>, job_elems: u64) -> u64 {
    let (view, granularity) = (task.rows.view(), task.rows.granularity());
    // If blocks of codes span several rows, smaller jobs would read them repeatedly.
    let n_rows = (job_elems / view.row_elems.max(1)).max(granularity.least_rows);
    // Complete groups, unless one group is too large for a job.
    if granularity.group_rows < n_rows {
        n_rows / granularity.group_rows * granularity.group_rows
    } else {
        n_rows
    }
}

/// Number of rows of each task that one pass over a schedule or a journal still has to read.
#[derive(Debug)]
pub(crate) struct RowsLeft(Vec<AtomicU64>);

impl RowsLeft {
    pub(crate) fn new(n_rows: impl IntoIterator<Item = u64>) -> RowsLeft {
        RowsLeft(n_rows.into_iter().map(AtomicU64::new).collect())
    }

    /// Records that the rows of `job` are done.
    pub(crate) fn done_with(&self, tasks: &[TensorTask<'_>], job: &Job) {
        // No other job of this pass uses these rows, so their pages can be released at once. Pages that jobs
        // share are released by the last job to finish, which need not be that of the last rows.
        let (rows, n_now) = (&tasks[job.task].rows, job.rows.end - job.rows.start);
        rows.advise(job.rows.clone(), Advice::DoneWith);
        // Exactly one thread sees the count drop to zero.
        if self.0[job.task].fetch_sub(n_now, Ordering::Relaxed) == n_now {
            rows.all_done();
        }
    }
}

/// All jobs, in task order. Jobs are computed, not stored.
#[derive(Debug, Clone)]
pub struct Schedule {
    /// For each task: number of jobs up to its end, its rows, rows per job.
    tasks: Vec<(usize, u64, u64)>,
    /// Selected jobs, if not all.
    selection: Option<Selection>,
}

#[derive(Debug, Clone)]
struct Selection {
    /// For each run of consecutive jobs: the number of selected jobs up to its end, and its first job.
    runs: Vec<(usize, usize)>,
    /// Rows of selected jobs for each task.
    n_rows: Vec<u64>,
}

impl Schedule {
    /// Cuts tasks into jobs of at most `job_elems` elements, or of
    /// [`least_rows`](crate::Granularity::least_rows) if that is more.
    pub fn new(tasks: &[TensorTask<'_>], job_elems: u64) -> Schedule {
        let mut n_jobs = 0usize;
        let cut = |task: &TensorTask<'_>| {
            let (n_rows, rows_per_job) = (task.rows.view().n_rows, rows_per_job(task, job_elems));
            n_jobs += n_rows.div_ceil(rows_per_job) as usize;
            (n_jobs, n_rows, rows_per_job)
        };
        Schedule { tasks: tasks.iter().map(cut).collect(), selection: None }
    }

    /// Restricts the schedule to jobs for which `is_wanted` returns true.
    pub fn only(self, is_wanted: impl Fn(&Job) -> bool) -> Schedule {
        let (mut runs, mut n_rows): (Vec<(usize, usize)>, _) = (Vec::new(), vec![0; self.tasks.len()]);
        let mut n_selected = 0;
        let mut before = None;
        for index in 0..self.len() {
            let Some((at, job)) = self.place(index).and_then(|at| Some((at, self.cut(at)?))) else { break };
            if !is_wanted(&job) {
                continue;
            }
            n_selected += 1;
            n_rows[job.task] += job.rows.end - job.rows.start;
            // Neighbors are merged: a journal has few runs, but there are hundreds of thousands of jobs.
            match runs.last_mut() {
                Some(last) if before == at.checked_sub(1) => last.0 = n_selected,
                _ => runs.push((n_selected, at)),
            }
            before = Some(at);
        }
        Schedule { selection: Some(Selection { runs, n_rows }), ..self }
    }

    /// Rows of all selected jobs for each task.
    pub(crate) fn n_rows(&self) -> Vec<u64> {
        match &self.selection {
            Some(selection) => selection.n_rows.clone(),
            None => self.tasks.iter().map(|(_, n_rows, _)| *n_rows).collect(),
        }
    }

    /// Number of jobs.
    pub fn len(&self) -> usize {
        match &self.selection {
            Some(selection) => selection.runs.last().map_or(0, |(jobs, _)| *jobs),
            None => self.tasks.last().map_or(0, |(jobs, ..)| *jobs),
        }
    }

    /// True if there are no jobs.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Job at `index`, or `None` if it is out of range.
    pub fn job(&self, index: usize) -> Option<Job> {
        self.cut(self.place(index)?)
    }

    pub(crate) fn jobs(&self) -> impl Iterator<Item = Job> {
        (0..self.len()).map_while(|index| self.job(index))
    }

    /// Index among all jobs of the selected job at `index`.
    fn place(&self, index: usize) -> Option<usize> {
        let Some(Selection { runs, .. }) = &self.selection else { return Some(index) };
        // The first run that extends beyond the index, and the number of jobs before it.
        let run = runs.partition_point(|(jobs, _)| *jobs <= index);
        let before = run.checked_sub(1).map_or(0, |before| runs[before].0);
        Some(runs.get(run)?.1 + (index - before))
    }

    /// Job at `index` of the unrestricted schedule.
    fn cut(&self, index: usize) -> Option<Job> {
        // The first task whose jobs extend beyond this index; tasks without rows have no jobs.
        let task = self.tasks.partition_point(|(jobs, ..)| *jobs <= index);
        let (_, n_rows, rows_per_job) = *self.tasks.get(task)?;
        let before = task.checked_sub(1).map_or(0, |before| self.tasks[before].0);
        let start = (index - before) as u64 * rows_per_job;
        Some(Job { task, rows: start..(start + rows_per_job).min(n_rows) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::ValueRows;

    fn task(values: &[f32]) -> TensorTask<'_> {
        TensorTask::new("t".into(), Box::new(ValueRows(values)))
    }

    #[test]
    fn every_row_is_in_exactly_one_job() {
        let values = vec![0.0; 10];
        // Values are one row each; an empty tensor has one empty row.
        let tasks = [task(&values), task(&[]), task(&values)];
        let schedule = Schedule::new(&tasks, 4);
        let jobs: Vec<Job> = schedule.jobs().collect();
        assert_eq!(jobs.len(), schedule.len());
        assert_eq!(jobs, [0, 1, 2].map(|task| Job { task, rows: 0..1 }));
        assert!(Schedule::new(&[], 4).is_empty());
        assert_eq!(Schedule::new(&[], 4).job(0), None);

        let schedule = Schedule { tasks: vec![(3, 5, 2), (3, 0, 7), (4, 7, 7)], selection: None };
        let jobs: Vec<Job> = schedule.jobs().collect();
        let expected = [(0, 0..2), (0, 2..4), (0, 4..5), (2, 0..7)];
        assert_eq!(jobs, expected.map(|(task, rows)| Job { task, rows }));
        // Remaining jobs stay in order.
        for unwanted in 0..16u32 {
            let is_wanted = |job: &Job| {
                let index = jobs.iter().position(|other| other == job).unwrap();
                unwanted >> index & 1 == 0
            };
            let some = schedule.clone().only(is_wanted);
            let remaining: Vec<Job> = jobs.iter().filter(|job| is_wanted(job)).cloned().collect();
            assert_eq!(some.jobs().collect::<Vec<Job>>(), remaining, "{unwanted:04b}");
            assert_eq!(some.len(), remaining.len());
            let n_rows = |task| {
                remaining.iter().filter(move |job| job.task == task).map(|job| job.rows.end - job.rows.start)
            };
            assert_eq!(some.n_rows(), [0, 1, 2].map(|task| n_rows(task).sum::<u64>()), "{unwanted:04b}");
            assert_eq!(
                some.only(|job| job.task == 0).len(),
                remaining.iter().filter(|job| job.task == 0).count()
            );
        }
    }

    /// Rows of a matrix that all jobs read.
    #[derive(Debug)]
    struct Shared(&'static AtomicU64);

    impl RowSource for Shared {
        fn view(&self) -> gguf_layout::RowView {
            gguf_layout::RowView { n_rows: 10, row_elems: 2 }
        }

        fn read(&self, _: Range<u64>, _: gguf_quant::Level, _: &mut [f32]) -> Result<(), crate::Error> {
            Err(crate::Error::Cancelled)
        }

        fn all_done(&self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }

        fn input_bytes(&self, n_rows: u64) -> u64 {
            n_rows
        }
    }

    #[test]
    fn shared_pages_are_released_by_last_job() {
        static N_GIVEN_BACK: AtomicU64 = AtomicU64::new(0);
        let tasks = [TensorTask::new("t".into(), Box::new(Shared(&N_GIVEN_BACK)))];
        let all = Schedule::new(&tasks, 4);
        // All of five jobs, then the selection of a part or a resumed run.
        for (round, selection) in [vec![0, 1, 2, 3, 4], vec![1, 4], vec![2]].into_iter().enumerate() {
            let some = all.clone().only(|job| selection.contains(&(job.rows.start / 2)));
            let left = RowsLeft::new(some.n_rows());
            for index in (0..some.len()).rev() {
                assert_eq!(N_GIVEN_BACK.load(Ordering::Relaxed), round as u64, "{selection:?}");
                left.done_with(&tasks, &some.job(index).unwrap());
            }
            assert_eq!(N_GIVEN_BACK.load(Ordering::Relaxed), round as u64 + 1, "{selection:?}");
        }
    }
}

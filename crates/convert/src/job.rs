//! The work of a run, cut into jobs of about one megabyte.

use std::ops::Range;

use tensor::DType;

use crate::TensorRows;

/// One tensor: where its rows come from and where they go. Several targets share one read.
#[derive(Debug, Clone)]
pub struct Work<'a> {
    /// Its name in the output, for messages.
    pub name: String,
    /// Where its values come from.
    pub rows: TensorRows<'a>,
    /// Importance weights for its quantized targets.
    pub weights: Option<Weights<'a>>,
    /// Weights in the place of missing ones, for targets that cannot do without.
    pub stand_in: Option<Weights<'a>>,
    /// A type that every value is rounded to before anything else (`--via`).
    pub via: Option<DType>,
    /// Where it goes.
    pub targets: Vec<Target>,
}

impl<'a> Work<'a> {
    /// Rows that go nowhere yet and have no weights.
    pub fn new(name: String, rows: TensorRows<'a>) -> Work<'a> {
        Work { name, rows, weights: None, stand_in: None, via: None, targets: Vec::new() }
    }
}

/// Importance weights of a tensor: (n_experts, row_elems) f32, row-major. Rows of one expert
/// share a row of weights.
#[derive(Debug, Clone, Copy)]
pub struct Weights<'a> {
    /// The weights.
    pub values: &'a [f32],
    /// Rows of the tensor that one expert has; all of them where there are no experts.
    pub rows_per_expert: u64,
}

/// A place for one tensor in one output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target {
    /// Index into the outputs of the run.
    pub output: usize,
    /// The type to encode to.
    pub dtype: DType,
    /// Bytes from the start of that file to the tensor's data.
    pub offset: u64,
    /// Whether the type cannot be encoded to without importance weights.
    pub needs_weights: bool,
}

/// Rows of one tensor, read once and written to all targets: what a thread takes at a time, and
/// what a journal of finished work would note.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// Index into the works of the run.
    pub work: usize,
    /// Rows, as [`TensorRows::view`] counts them.
    pub rows: Range<u64>,
}

/// Elements that a job holds at most, one row or a panel of columns excepted. 1 MiB of f32 stays in the second-level
/// cache between reading, encoding and writing, and takes milliseconds even in the slow formats,
/// so that threads finish together.
pub const JOB_ELEMS: u64 = 256 * 1024;

/// Which jobs there are, in the order of the works. Jobs are computed, not stored.
#[derive(Debug, Clone)]
pub struct Schedule {
    /// For each work: jobs up to and with it, rows in it, rows of one job.
    works: Vec<(usize, u64, u64)>,
}

impl Schedule {
    /// Cuts works into jobs of at most `job_elems` elements, or of [`TensorRows::least_rows`] where
    /// that is more.
    pub fn new(works: &[Work<'_>], job_elems: u64) -> Schedule {
        let mut n_jobs = 0usize;
        let cut = |work: &Work<'_>| {
            let view = work.rows.view();
            let mut rows_per_job = (job_elems / view.row_elems.max(1)).max(work.rows.least_rows());
            let group = work.rows.group_rows();
            if group < rows_per_job {
                rows_per_job = rows_per_job / group * group;
            }
            n_jobs += view.n_rows.div_ceil(rows_per_job) as usize;
            (n_jobs, view.n_rows, rows_per_job)
        };
        Schedule { works: works.iter().map(cut).collect() }
    }

    /// Number of jobs.
    pub fn len(&self) -> usize {
        self.works.last().map_or(0, |(jobs, ..)| *jobs)
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The job at `index`, if there are that many.
    pub fn job(&self, index: usize) -> Option<Job> {
        let work = self.works.partition_point(|(jobs, ..)| *jobs <= index);
        let (_, n_rows, rows_per_job) = *self.works.get(work)?;
        let before = work.checked_sub(1).map_or(0, |before| self.works[before].0);
        let start = (index - before) as u64 * rows_per_job;
        Some(Job { work, rows: start..(start + rows_per_job).min(n_rows) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(values: &[f32]) -> Work<'_> {
        Work::new("t".into(), TensorRows::Values(values))
    }

    #[test]
    fn every_row_is_in_exactly_one_job() {
        let values = vec![0.0; 10];
        // Values are one row each; an empty tensor has one row of nothing.
        let works = [work(&values), work(&[]), work(&values)];
        let schedule = Schedule::new(&works, 4);
        let jobs: Vec<Job> = (0..).map_while(|i| schedule.job(i)).collect();
        assert_eq!(jobs.len(), schedule.len());
        assert_eq!(jobs, [0, 1, 2].map(|work| Job { work, rows: 0..1 }));
        assert!(Schedule::new(&[], 4).is_empty());
        assert_eq!(Schedule::new(&[], 4).job(0), None);

        let schedule = Schedule { works: vec![(3, 5, 2), (3, 0, 7), (4, 7, 7)] };
        let jobs: Vec<Job> = (0..).map_while(|i| schedule.job(i)).collect();
        let expected = [(0, 0..2), (0, 2..4), (0, 4..5), (2, 0..7)];
        assert_eq!(jobs, expected.map(|(work, rows)| Job { work, rows }));
    }
}

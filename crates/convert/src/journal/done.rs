//! Rows that are on the disk, with checksums of their bytes.

use std::{
    ops::Range,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
};

use gguf::Output;
use serde_json::{Value, json};
use tensor::Shape;
use twox_hash::XxHash3_64;

use crate::{
    Error,
    job::{Job, TensorTask},
};

/// The bytes of some rows in one output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// XXH3 of 64 bits: of the bytes as they are in the file, where they are those of one job; of the checksums of its jobs,
    /// where there are several.
    pub checksum: u64,
    /// Number of bytes.
    pub n_bytes: u64,
}

impl Span {
    /// Of the bytes of one job.
    pub fn of(bytes: &[u8]) -> Span {
        Span { checksum: XxHash3_64::oneshot(bytes), n_bytes: bytes.len() as u64 }
    }
}

/// Rows of one tensor that are in all outputs: those of one job, or of jobs that are neighbours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Done {
    /// Index into the tasks of the run.
    pub task: usize,
    /// Rows, as the task's rows count them.
    pub rows: Range<u64>,
    /// Rows of one job; the last may have fewer.
    pub job_rows: u64,
    /// Their bytes in each target of the task.
    pub spans: Vec<Span>,
}

impl Done {
    /// The rows of one job.
    pub fn of_job(task: usize, rows: Range<u64>, spans: Vec<Span>) -> Done {
        Done { task, job_rows: rows.end - rows.start, rows, spans }
    }

    /// Where the bytes of these rows are in each target: output, offset and bytes of one row. None where the rows or their
    /// bytes are not those of a task.
    pub fn places(&self, tasks: &[TensorTask<'_>]) -> Option<Vec<(usize, u64, u64)>> {
        let task = tasks.get(self.task)?;
        let view = task.rows.view();
        let n_rows = self.rows.end.checked_sub(self.rows.start)?;
        if self.rows.end > view.n_rows || self.job_rows == 0 || self.spans.len() != task.targets.len() {
            return None;
        }
        let place = |(target, span): (&crate::job::Target<'_>, &Span)| {
            let row_bytes = Shape::new(&[view.row_elems]).ok()?.row_bytes(target.dtype).ok()?;
            let is_right = row_bytes.checked_mul(n_rows) == Some(span.n_bytes);
            is_right.then_some((target.output, target.offset + self.rows.start * row_bytes, row_bytes))
        };
        task.targets.iter().zip(&self.spans).map(place).collect()
    }

    pub(super) fn to_json(&self) -> Value {
        let spans: Vec<Value> = self.spans.iter().map(|span| json!([span.checksum, span.n_bytes])).collect();
        json!([self.task, self.rows.start, self.rows.end, self.job_rows, spans])
    }

    pub(super) fn from_json(value: &Value) -> Option<Done> {
        let [task, start, end, job_rows, spans] = &value.as_array()?[..] else { return None };
        let span = |span: &Value| {
            let [checksum, n_bytes] = &span.as_array()?[..] else { return None };
            Some(Span { checksum: checksum.as_u64()?, n_bytes: n_bytes.as_u64()? })
        };
        let spans = spans.as_array()?.iter().map(span).collect::<Option<Vec<Span>>>()?;
        let task = usize::try_from(task.as_u64()?).ok()?;
        Some(Done { task, rows: start.as_u64()?..end.as_u64()?, job_rows: job_rows.as_u64()?, spans })
    }
}

/// Jobs made ranges.
pub(super) fn merged(mut jobs: Vec<Done>) -> Vec<Done> {
    jobs.sort_by_key(|job| (job.task, job.rows.start));
    let mut ranges = Vec::new();
    let mut rest = &jobs[..];
    while let Some(first) = rest.first() {
        // All but the last of a range have as many rows as the first: these say where each job begins.
        let follows = |at: &usize| {
            let (before, next) = (&rest[*at - 1], &rest[*at]);
            before.task == next.task
                && before.rows.end == next.rows.start
                && before.job_rows == first.job_rows
                && next.job_rows <= first.job_rows
        };
        let n_jobs = 1 + (1..rest.len()).take_while(follows).count();
        ranges.push(merge(&rest[..n_jobs]));
        rest = &rest[n_jobs..];
    }
    ranges
}

/// One range of jobs that follow each other.
fn merge(jobs: &[Done]) -> Done {
    let (first, last) = (&jobs[0], &jobs[jobs.len() - 1]);
    if jobs.len() == 1 {
        return first.clone();
    }
    let span = |target: usize| {
        let sums: Vec<u8> = jobs.iter().flat_map(|job| job.spans[target].checksum.to_le_bytes()).collect();
        let n_bytes = jobs.iter().map(|job| job.spans[target].n_bytes).sum();
        Span { checksum: XxHash3_64::oneshot(&sums), n_bytes }
    };
    let spans = (0..first.spans.len()).map(span).collect();
    Done { rows: first.rows.start..last.rows.end, spans, ..*first }
}

/// Bytes of a job at most that are read back at a time. Jobs hold a megabyte or a row; what says that it is more is wrong.
const MAX_JOB_BYTES: u64 = 1 << 30;

/// Reads back what is said to be done and gives what is. Ranges are compared by `n_threads` at once.
///
/// # Errors
/// [`Error::Gguf`] where an output cannot be read, [`Error::Cancelled`].
pub fn verify(
    done: Vec<Done>,
    tasks: &[TensorTask<'_>],
    outputs: &[Output],
    n_threads: usize,
    cancel: &AtomicBool,
) -> Result<Vec<Done>, Error> {
    let next = AtomicUsize::new(0);
    let is_right: Vec<AtomicBool> = done.iter().map(|_| AtomicBool::new(false)).collect();
    let failed: Mutex<Option<Error>> = Mutex::new(None);
    let compare = || {
        let mut buffer = Vec::new();
        while !cancel.load(Ordering::Relaxed) {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(range) = done.get(index) else { return };
            match is_there(range, tasks, outputs, cancel, &mut buffer) {
                Ok(right) => is_right[index].store(right, Ordering::Relaxed),
                Err(error) => {
                    failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                    return;
                }
            }
        }
    };
    thread::scope(|scope| {
        for _ in 1..n_threads.min(done.len()) {
            scope.spawn(compare);
        }
        compare();
    });
    if let Some(error) = failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(error);
    }
    if cancel.load(Ordering::Relaxed) {
        return Err(Error::Cancelled);
    }
    let found = done.into_iter().zip(is_right);
    Ok(found.filter(|(_, is_right)| is_right.load(Ordering::Relaxed)).map(|(done, _)| done).collect())
}

fn is_there(
    done: &Done,
    tasks: &[TensorTask<'_>],
    outputs: &[Output],
    cancel: &AtomicBool,
    buffer: &mut Vec<u8>,
) -> Result<bool, Error> {
    let Some(places) = done.places(tasks) else { return Ok(false) };
    let n_rows = done.rows.end - done.rows.start;
    for ((output, mut offset, row_bytes), span) in places.into_iter().zip(&done.spans) {
        let Some(output) = outputs.get(output) else { return Ok(false) };
        let (mut left, mut sums) = (n_rows, Vec::new());
        while left > 0 && !cancel.load(Ordering::Relaxed) {
            let rows = done.job_rows.min(left);
            if rows * row_bytes > MAX_JOB_BYTES {
                return Ok(false);
            }
            buffer.resize((rows * row_bytes) as usize, 0);
            output.read_at(offset, buffer)?;
            sums.extend_from_slice(&Span::of(buffer).checksum.to_le_bytes());
            (offset, left) = (offset + rows * row_bytes, left - rows);
        }
        let checksum = match <[u8; 8]>::try_from(&sums[..]) {
            Ok(of_one) => u64::from_le_bytes(of_one),
            Err(_) => XxHash3_64::oneshot(&sums),
        };
        if left > 0 || checksum != span.checksum {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The rows of a run that are not done.
#[derive(Debug, Clone, Default)]
pub struct Remaining {
    /// For each task the rows that are done, in order, neighbours made one.
    done: Vec<Vec<Range<u64>>>,
}

impl Remaining {
    /// All but `done`, of so many tasks.
    pub fn without(done: &[Done], n_tasks: usize) -> Remaining {
        let mut by_task: Vec<Vec<Range<u64>>> = vec![Vec::new(); n_tasks];
        for range in done {
            if let Some(ranges) = by_task.get_mut(range.task) {
                ranges.push(range.rows.clone());
            }
        }
        for ranges in &mut by_task {
            ranges.sort_by_key(|rows| rows.start);
            let mut merged: Vec<Range<u64>> = Vec::with_capacity(ranges.len());
            for rows in ranges.drain(..) {
                match merged.last_mut() {
                    Some(last) if rows.start <= last.end => last.end = last.end.max(rows.end),
                    _ => merged.push(rows),
                }
            }
            *ranges = merged;
        }
        Remaining { done: by_task }
    }

    /// Whether a job has any of them.
    pub fn has(&self, job: &Job) -> bool {
        let Some(ranges) = self.done.get(job.task) else { return true };
        let before = ranges.partition_point(|rows| rows.start <= job.rows.start);
        let covering = before.checked_sub(1).map(|index| &ranges[index]);
        covering.is_none_or(|rows| rows.end < job.rows.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(task: usize, rows: Range<u64>, bytes: &[u8]) -> Done {
        Done::of_job(task, rows, vec![Span::of(bytes)])
    }

    #[test]
    fn neighbours_become_one_range_with_the_checksum_of_their_checksums() {
        let jobs = [
            done(1, 4..6, b"cccc"),
            done(0, 0..1, b"x"),
            done(1, 0..2, b"aaaa"),
            done(1, 2..4, b"bbbb"),
            done(1, 6..7, b"dd"),
            // Behind a short one nothing follows in the same range.
            done(1, 7..9, b"eeee"),
            done(1, 11..13, b"ffff"),
            done(1, 13..16, b"gggggg"),
        ];
        let sums: Vec<u8> = [&b"aaaa"[..], b"bbbb", b"cccc", b"dd"]
            .iter()
            .flat_map(|bytes| XxHash3_64::oneshot(bytes).to_le_bytes())
            .collect();
        let whole = Span { checksum: XxHash3_64::oneshot(&sums), n_bytes: 14 };
        let expected = [
            done(0, 0..1, b"x"),
            Done { task: 1, rows: 0..7, job_rows: 2, spans: vec![whole] },
            done(1, 7..9, b"eeee"),
            done(1, 11..13, b"ffff"),
            done(1, 13..16, b"gggggg"),
        ];
        assert_eq!(merged(jobs.to_vec()), expected);
        for range in &expected {
            assert_eq!(Done::from_json(&range.to_json()).as_ref(), Some(range));
        }
        assert_eq!(Done::from_json(&json!([0, 1, 2, 1, [[-1, 2]]])), None);
        assert_eq!(Done::from_json(&json!([0, -1, 2, 1, []])), None);
        assert_eq!(merged(Vec::new()), []);
    }

    #[test]
    fn jobs_that_are_covered_do_not_remain() {
        let ranges = [done(0, 4..6, b""), done(0, 0..2, b""), done(0, 2..3, b""), done(7, 0..9, b"")];
        let remaining = Remaining::without(&ranges, 2);
        let has = |task, rows| remaining.has(&Job { task, rows });
        for (rows, expected) in [
            (0..3, false),
            (1..2, false),
            (0..4, true),
            (3..4, true),
            (4..6, false),
            (4..7, true),
            (6..7, true),
        ] {
            assert_eq!(has(0, rows.clone()), expected, "{rows:?}");
        }
        assert!(has(1, 0..1));
        assert!(Remaining::default().has(&Job { task: 0, rows: 0..1 }));
    }
}

//! Rows that are on disk, with checksums.

use std::ops::Range;

use gguf_types::Shape;
use serde::Deserialize;
use serde_json::{Value, json};
use twox_hash::XxHash3_64;

use crate::job::{Job, TensorTask};

/// The bytes of some rows in one output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// 64-bit XXH3 of the bytes in the file for a single job, or of the jobs' checksums for several. `None`
    /// if the bytes are cheap to recompute; they are then recomputed and compared.
    pub checksum: Option<u64>,
    /// Number of bytes.
    pub n_bytes: u64,
}

impl Span {
    /// Span of the bytes of one job.
    pub fn of(bytes: &[u8]) -> Span {
        Span { checksum: Some(XxHash3_64::oneshot(bytes)), n_bytes: bytes.len() as u64 }
    }

    /// True if both or neither have a checksum.
    fn is_like(&self, other: &Span) -> bool {
        self.checksum.is_some() == other.checksum.is_some()
    }
}

/// Rows of one tensor that are in all outputs: those of one job, or of consecutive jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Done {
    /// Index into the tasks of the run.
    pub task: usize,
    /// Rows, as counted by the task.
    pub rows: Range<u64>,
    /// Rows of one job; the last may have fewer.
    pub job_rows: u64,
    /// Their bytes in each target of the task.
    pub spans: Vec<Span>,
}

impl Done {
    /// Rows of one job.
    pub fn from_job(task: usize, rows: Range<u64>, spans: Vec<Span>) -> Done {
        Done { task, job_rows: rows.end - rows.start, rows, spans }
    }

    /// Position of the rows in each target: output, offset and bytes of one row. `None` if they do not match
    /// a task.
    pub fn places(&self, tasks: &[TensorTask<'_>]) -> Option<Vec<(usize, u64, u64)>> {
        let task = tasks.get(self.task)?;
        let view = task.rows.view();
        let n_rows = self.rows.end.checked_sub(self.rows.start)?;
        if self.rows.end > view.n_rows || self.job_rows == 0 || self.spans.len() != task.targets.len() {
            return None;
        }
        let place = |(target, span): (&crate::job::Target<'_>, &Span)| {
            let row_bytes = Shape::new(&[view.row_elems]).ok()?.row_bytes(target.dtype).ok()?;
            // Rows and span both give the length; if they disagree, reject both.
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
        type Written = (usize, u64, u64, u64, Vec<(Option<u64>, u64)>);
        let (task, start, end, job_rows, spans) = Written::deserialize(value).ok()?;
        let spans = spans.into_iter().map(|(checksum, n_bytes)| Span { checksum, n_bytes }).collect();
        Some(Done { task, rows: start..end, job_rows, spans })
    }
}

/// Total bytes of these ranges, saturating because a journal may contain any number.
pub(crate) fn n_bytes(done: &[Done]) -> u64 {
    done.iter().flat_map(|done| &done.spans).fold(0, |sum, span| sum.saturating_add(span.n_bytes))
}

pub(super) fn merged(mut jobs: Vec<Done>) -> Vec<Done> {
    jobs.sort_by_key(|job| (job.task, job.rows.start));
    let mut ranges = Vec::new();
    let mut rest = &jobs[..];
    while let Some(first) = rest.first() {
        // All but the last job of a range have the same number of rows, which gives the start of each.
        let follows = |at: &usize| {
            let (before, next) = (&rest[*at - 1], &rest[*at]);
            before.task == next.task
                && before.rows.end == next.rows.start
                && before.job_rows == first.job_rows
                && next.job_rows <= first.job_rows
                && before.spans.iter().zip(&next.spans).all(|(before, next)| before.is_like(next))
        };
        let n_jobs = 1 + (1..rest.len()).take_while(follows).count();
        ranges.push(merge(&rest[..n_jobs]));
        rest = &rest[n_jobs..];
    }
    ranges
}

fn merge(jobs: &[Done]) -> Done {
    let (first, last) = (&jobs[0], &jobs[jobs.len() - 1]);
    if jobs.len() == 1 {
        return first.clone();
    }
    let span = |target: usize| {
        // Either all jobs of a range have a checksum, or no job has.
        let sums: Option<Vec<u64>> = jobs.iter().map(|job| job.spans[target].checksum).collect();
        let n_bytes = jobs.iter().map(|job| job.spans[target].n_bytes).sum();
        Span { checksum: sums.map(|sums| checksum_of(&sums)), n_bytes }
    };
    let spans = (0..first.spans.len()).map(span).collect();
    Done { rows: first.rows.start..last.rows.end, spans, ..*first }
}

/// Checksum of a range: its own for one job, else the XXH3 of all, little endian.
pub(crate) fn checksum_of(sums: &[u64]) -> u64 {
    match sums {
        [checksum] => *checksum,
        sums => XxHash3_64::oneshot(&sums.iter().flat_map(|sum| sum.to_le_bytes()).collect::<Vec<u8>>()),
    }
}

/// Rows of a run that are not done.
#[derive(Debug, Clone, Default)]
pub struct Remaining {
    /// Done rows of each task, sorted and merged.
    done: Vec<Vec<Range<u64>>>,
}

impl Remaining {
    /// All rows of `n_tasks` tasks except `done`.
    pub fn without(done: &[Done], n_tasks: usize) -> Remaining {
        let mut by_task: Vec<Vec<Range<u64>>> = vec![Vec::new(); n_tasks];
        for range in done {
            if let Some(ranges) = by_task.get_mut(range.task) {
                ranges.push(range.rows.clone());
            }
        }
        for ranges in &mut by_task {
            // Resumed runs record rows in any order, some twice.
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

    /// True if any row of `job` is not done.
    pub fn has(&self, job: &Job) -> bool {
        let Some(ranges) = self.done.get(job.task) else { return true };
        let before = ranges.partition_point(|rows| rows.start <= job.rows.start);
        let covering_range = before.checked_sub(1).map(|index| &ranges[index]);
        covering_range.is_none_or(|rows| rows.end < job.rows.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(task: usize, rows: Range<u64>, bytes: &[u8]) -> Done {
        Done::from_job(task, rows, vec![Span::of(bytes)])
    }

    #[test]
    fn adjacent_ranges_merge_with_their_checksums() {
        let jobs = [
            done(1, 4..6, b"cccc"),
            done(0, 0..1, b"x"),
            done(1, 0..2, b"aaaa"),
            done(1, 2..4, b"bbbb"),
            done(1, 6..7, b"dd"),
            // A short job ends its range.
            done(1, 7..9, b"eeee"),
            done(1, 11..13, b"ffff"),
            done(1, 13..16, b"gggggg"),
        ];
        let sums: Vec<u8> = [&b"aaaa"[..], b"bbbb", b"cccc", b"dd"]
            .iter()
            .flat_map(|bytes| XxHash3_64::oneshot(bytes).to_le_bytes())
            .collect();
        let whole = Span { checksum: Some(XxHash3_64::oneshot(&sums)), n_bytes: 14 };
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
        assert_eq!(Done::from_json(&json!([0, 1, 2, 1, [["", 2]]])), None);
        assert_eq!(merged(Vec::new()), []);
    }

    #[test]
    fn rewritten_rows_merge_with_no_checksummed_range() {
        let from_job = |rows: Range<u64>, checksums: [Option<u64>; 2]| {
            Done::from_job(0, rows, checksums.map(|checksum| Span { checksum, n_bytes: 5 }).to_vec())
        };
        let jobs = [
            from_job(0..1, [None, Some(3)]),
            from_job(1..2, [None, Some(4)]),
            from_job(2..3, [None, None]),
            from_job(3..4, [None, None]),
        ];
        let ranges = merged(jobs.to_vec());
        let checksums: Vec<(Range<u64>, Option<u64>, Option<u64>)> = ranges
            .iter()
            .map(|range| (range.rows.clone(), range.spans[0].checksum, range.spans[1].checksum))
            .collect();
        assert_eq!(checksums, [(0..2, None, Some(checksum_of(&[3, 4]))), (2..4, None, None)]);
        assert!(ranges.iter().flat_map(|range| &range.spans).all(|span| span.n_bytes == 10));
        for range in &ranges {
            assert_eq!(Done::from_json(&range.to_json()).as_ref(), Some(range));
        }
    }

    #[test]
    fn covered_jobs_are_removed() {
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

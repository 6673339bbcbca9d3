//! Rows that are on the disk, with checksums of their bytes.

use std::{
    ops::Range,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
};

use crc32fast::Hasher;
use gguf::Output;
use serde_json::{Value, json};
use tensor::Shape;

use crate::{
    Error,
    job::{Job, TensorTask},
};

/// The bytes of some rows in one output, by length and CRC-32.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// CRC-32 (ISO-HDLC) of the bytes as they are in the file.
    pub crc: u32,
    /// Their number.
    pub n_bytes: u64,
}

impl Span {
    /// Of these bytes.
    pub fn of(bytes: &[u8]) -> Span {
        Span { crc: crc32fast::hash(bytes), n_bytes: bytes.len() as u64 }
    }

    /// Of these bytes and those that follow.
    fn followed_by(self, next: Span) -> Span {
        let mut hasher = Hasher::new_with_initial_len(self.crc, self.n_bytes);
        hasher.combine(&Hasher::new_with_initial_len(next.crc, next.n_bytes));
        Span { crc: hasher.finalize(), n_bytes: self.n_bytes + next.n_bytes }
    }
}

/// Rows of one tensor that are in all outputs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Done {
    /// Index into the tasks of the run.
    pub task: usize,
    /// Rows, as the task's rows count them.
    pub rows: Range<u64>,
    /// Their bytes in each target of the task.
    pub spans: Vec<Span>,
}

impl Done {
    /// Where the bytes of these rows are in each target: output and offset. None where the rows or their bytes are not
    /// those of a task.
    pub fn places(&self, tasks: &[TensorTask<'_>]) -> Option<Vec<(usize, u64)>> {
        let task = tasks.get(self.task)?;
        let view = task.rows.view();
        let n_rows = self.rows.end.checked_sub(self.rows.start)?;
        if self.rows.end > view.n_rows || self.spans.len() != task.targets.len() {
            return None;
        }
        let place = |(target, span): (&crate::job::Target<'_>, &Span)| {
            let row_bytes = Shape::new(&[view.row_elems]).ok()?.row_bytes(target.dtype).ok()?;
            let is_right = row_bytes.checked_mul(n_rows) == Some(span.n_bytes);
            is_right.then_some((target.output, target.offset + self.rows.start * row_bytes))
        };
        task.targets.iter().zip(&self.spans).map(place).collect()
    }

    pub(super) fn to_json(&self) -> Value {
        let spans: Vec<Value> = self.spans.iter().map(|span| json!([span.crc, span.n_bytes])).collect();
        json!([self.task, self.rows.start, self.rows.end, spans])
    }

    pub(super) fn from_json(value: &Value) -> Option<Done> {
        let [task, start, end, spans] = &value.as_array()?[..] else { return None };
        let span = |span: &Value| {
            let [crc, n_bytes] = &span.as_array()?[..] else { return None };
            Some(Span { crc: u32::try_from(crc.as_u64()?).ok()?, n_bytes: n_bytes.as_u64()? })
        };
        let spans = spans.as_array()?.iter().map(span).collect::<Option<Vec<Span>>>()?;
        let task = usize::try_from(task.as_u64()?).ok()?;
        Some(Done { task, rows: start.as_u64()?..end.as_u64()?, spans })
    }
}

/// Neighbours made one.
pub(super) fn merged(mut done: Vec<Done>) -> Vec<Done> {
    done.sort_by_key(|done| (done.task, done.rows.start));
    let mut merged: Vec<Done> = Vec::new();
    for next in done {
        match merged.last_mut() {
            Some(last) if last.task == next.task && last.rows.end == next.rows.start => {
                last.rows.end = next.rows.end;
                for (span, next) in last.spans.iter_mut().zip(&next.spans) {
                    *span = span.followed_by(*next);
                }
            }
            _ => merged.push(next),
        }
    }
    merged
}

/// Bytes that are read at a time to be compared: as much as the second-level cache holds.
const READ_BYTES: usize = 1 << 20;

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
        let mut buffer = vec![0; READ_BYTES];
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
    buffer: &mut [u8],
) -> Result<bool, Error> {
    let Some(places) = done.places(tasks) else { return Ok(false) };
    for ((output, mut offset), span) in places.into_iter().zip(&done.spans) {
        let Some(output) = outputs.get(output) else { return Ok(false) };
        let (mut left, mut hasher) = (span.n_bytes, Hasher::new());
        while left > 0 && !cancel.load(Ordering::Relaxed) {
            let piece = &mut buffer[..left.min(READ_BYTES as u64) as usize];
            output.read_at(offset, piece)?;
            hasher.update(piece);
            (offset, left) = (offset + piece.len() as u64, left - piece.len() as u64);
        }
        if left > 0 || hasher.finalize() != span.crc {
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
        Done { task, rows, spans: vec![Span::of(bytes)] }
    }

    #[test]
    fn neighbours_become_one_with_the_checksum_of_both() {
        let all = [
            done(1, 2..3, b"cc"),
            done(0, 0..1, b"x"),
            done(1, 0..1, b"aa"),
            done(1, 1..2, b"bb"),
            done(1, 4..5, b"e"),
        ];
        let expected = [done(0, 0..1, b"x"), done(1, 0..3, b"aabbcc"), done(1, 4..5, b"e")];
        assert_eq!(merged(all.to_vec()), expected);
        for range in &expected {
            assert_eq!(Done::from_json(&range.to_json()).as_ref(), Some(range));
        }
        assert_eq!(Done::from_json(&json!([0, 1, 2, [[1 << 33, 2]]])), None);
        assert_eq!(Done::from_json(&json!([0, -1, 2, []])), None);
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

//! Compares the rows listed in a journal with the data on disk.

use std::sync::atomic::{AtomicBool, Ordering};

use gguf_container::Output;

use crate::{
    Error,
    job::{JOB_ELEMS, Job, RowsLeft, TensorTask, rows_per_job},
    job_bytes::{Buffers, JobBytes},
    journal::{Done, Span, checksum_of},
    run::for_each,
    run_options::RunOptions,
};

/// Maximum bytes of a job that are read back at a time. Jobs have a megabyte or one row; a larger claim is
/// wrong.
const MAX_JOB_BYTES: u64 = 1 << 30;

/// Reads back rows that are recorded as done and returns the intact ones: bytes with a checksum are compared
/// with it, others with recomputed ones. Compares `n_threads` ranges at once.
///
/// # Errors
/// [`Error::Gguf`] if an output cannot be read, read errors of the sources, [`Error::Cancelled`].
pub fn verify(
    done: Vec<Done>,
    tasks: &[TensorTask<'_>],
    outputs: &[Output],
    options: &RunOptions,
    n_threads: usize,
    cancel: &AtomicBool,
) -> Result<Vec<Done>, Error> {
    let is_right: Vec<AtomicBool> = done.iter().map(|_| AtomicBool::new(false)).collect();
    // Pages of sources are released once all comparisons with them are done.
    let mut made_again = vec![0u64; tasks.len()];
    for range in done.iter().filter(|range| is_made_again(range) && range.places(tasks).is_some()) {
        made_again[range.task] = made_again[range.task].wrapping_add(range.rows.end - range.rows.start);
    }
    let comparison = Comparison { tasks, outputs, options, left: RowsLeft::new(made_again), cancel };
    for_each(done.len(), n_threads, cancel, |index, buffers| {
        is_right[index].store(comparison.is_intact(&done[index], buffers)?, Ordering::Relaxed);
        Ok(())
    })?;
    // A mismatch is not an error: the rows are recomputed.
    let found = done.into_iter().zip(is_right);
    Ok(found.filter(|(_, is_right)| is_right.load(Ordering::Relaxed)).map(|(done, _)| done).collect())
}

/// True if some bytes of a range have no checksum.
fn is_made_again(done: &Done) -> bool {
    done.spans.iter().any(|span| span.checksum.is_none())
}

struct Comparison<'a> {
    tasks: &'a [TensorTask<'a>],
    outputs: &'a [Output],
    options: &'a RunOptions,
    left: RowsLeft,
    cancel: &'a AtomicBool,
}

impl Comparison<'_> {
    fn is_intact(&self, done: &Done, (found, buffers): &mut (Vec<u8>, Buffers)) -> Result<bool, Error> {
        // A journal may name tensors and rows that do not exist.
        let Some(places) = done.places(self.tasks) else { return Ok(false) };
        if places.iter().any(|(output, ..)| *output >= self.outputs.len()) {
            return Ok(false);
        }
        // Checksums first: they can detect a wrong range without reading the sources.
        for ((output, offset, row_bytes), span) in places.iter().zip(&done.spans) {
            if let Some(checksum) = span.checksum
                && self.checksum(done, *output, *offset, *row_bytes, found)? != Some(checksum)
            {
                return Ok(false);
            }
        }
        if !is_made_again(done) {
            return Ok(true);
        }
        // The journal's job size may be wrong, so use other jobs: a row is the same in any.
        let task = &self.tasks[done.task];
        let job_rows = rows_per_job(task, JOB_ELEMS).max(1);
        let mut is_right = true;
        let mut start = done.rows.start;
        while start < done.rows.end && is_right {
            if self.cancel.load(Ordering::Relaxed) {
                return Ok(false);
            }
            let job = Job { task: done.task, rows: start..(start + job_rows).min(done.rows.end) };
            let mut made = JobBytes::new(task, &job, self.options, buffers);
            for ((target, (output, offset, row_bytes)), span) in
                task.targets.iter().zip(&places).zip(&done.spans)
            {
                if span.checksum.is_some() {
                    continue;
                }
                let expected = made.of(target)?.bytes;
                found.resize(expected.len(), 0);
                self.outputs[*output].read_at(offset + (start - done.rows.start) * row_bytes, found)?;
                is_right &= **found == *expected;
            }
            self.left.done_with(self.tasks, &job);
            start = job.rows.end;
        }
        Ok(is_right)
    }

    /// Checksum of a range on disk: output, offset, bytes of a row. `None` if it is implausibly large, or
    /// after an interruption.
    fn checksum(
        &self,
        done: &Done,
        output: usize,
        mut offset: u64,
        row_bytes: u64,
        found: &mut Vec<u8>,
    ) -> Result<Option<u64>, Error> {
        let (mut left, mut sums) = (done.rows.end - done.rows.start, Vec::new());
        while left > 0 {
            let rows = done.job_rows.min(left);
            let n_bytes = rows.checked_mul(row_bytes).filter(|n_bytes| *n_bytes <= MAX_JOB_BYTES);
            let Some(n_bytes) = n_bytes.filter(|_| !self.cancel.load(Ordering::Relaxed)) else {
                return Ok(None);
            };
            found.resize(n_bytes as usize, 0);
            self.outputs[output].read_at(offset, found)?;
            // By the journal's jobs: its checksum is computed from theirs.
            sums.extend(Span::of(found).checksum);
            (offset, left) = (offset + n_bytes, left - rows);
        }
        Ok(Some(checksum_of(&sums)))
    }
}

//! Parts of a file that were never written: runs of zero bytes in the data of tensors, for example after an aborted download.
//!
//! Whole rows of zeros are common: unused tokens, pruned neurons. A hole begins or ends inside a row, because downloads know
//! nothing about rows.

use std::ops::Range;

use gguf_container::Model;

use super::report::{Finding, Severity};

/// Shortest run that is reported, in bytes. It also covers at least two rows, so that zeros inside a row are not reported.
const MIN_RUN: u64 = 4096;
/// Bytes that are compared at a time.
const CELL: usize = 512;
/// Bytes next to a hole that may be zero by chance.
const SLACK: u64 = 64;
/// Downloads and file systems write multiples of this many bytes.
const PAGE: u64 = 4096;
/// Runs that are kept. A file has more only if it is made of zeros.
pub const MAX_RUNS: usize = 1 << 20;

/// Zero bytes in the data of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Run {
    /// Number of the tensor.
    pub tensor: usize,
    /// First byte, counted from the start of the tensor.
    pub from: u64,
    /// End.
    pub to: u64,
}

/// Runs of zeros of at least [`MIN_RUN`] bytes, and shorter ones at the start and the end, which may continue in other bytes.
pub fn zero_runs(bytes: &[u8]) -> Vec<Range<usize>> {
    let is_zero = |cell: &[u8]| cell.iter().fold(0, |all, byte| all | byte) == 0;
    let n_zeros = |bytes: &[u8]| {
        let whole = bytes.chunks(CELL).take_while(|cell| is_zero(cell)).map(<[u8]>::len).sum::<usize>();
        whole + bytes[whole..].iter().take_while(|byte| **byte == 0).count()
    };
    let mut found = Vec::new();
    let first = n_zeros(bytes);
    if first > 0 {
        found.push(0..first);
    }
    let mut at = first.next_multiple_of(CELL);
    while at < bytes.len() {
        // Most cells have a value in their first bytes.
        let cell = &bytes[at..bytes.len().min(at + CELL)];
        if cell[0] != 0 || !is_zero(cell) {
            at += CELL;
            continue;
        }
        let start = at - bytes[..at].iter().rev().take_while(|byte| **byte == 0).count();
        let end = at + n_zeros(&bytes[at..]);
        if (end - start) as u64 >= MIN_RUN || end == bytes.len() {
            found.push(start..end);
        }
        at = (end + 1).next_multiple_of(CELL);
    }
    let last = bytes.iter().rev().take_while(|byte| **byte == 0).count();
    if last > 0 && found.last().is_none_or(|run| run.end < bytes.len()) {
        found.push(bytes.len() - last..bytes.len());
    }
    found
}

/// Findings about the runs of a model, of which adjacent ones are joined.
pub fn findings(model: &Model, mut runs: Vec<Run>) -> Vec<Finding> {
    runs.sort_unstable();
    let mut joined: Vec<Run> = Vec::new();
    for run in runs {
        match joined.last_mut().filter(|last| last.tensor == run.tensor && last.to == run.from) {
            Some(last) => last.to = run.to,
            None => joined.push(run),
        }
    }
    let tensors: Vec<_> = model.tensors().collect();
    let mut found: Vec<Finding> = Vec::new();
    let mut named = None;
    // Severity and end of a hole that reaches the end of its tensor. Zeros at the start of the next tensor belong to it.
    let mut open: Option<(Severity, u64)> = None;
    for run in joined {
        let Some((file, info)) = tensors.get(run.tensor) else { continue };
        let row_bytes = info.shape.row_elems() / info.dtype.block_elems() * info.dtype.block_bytes();
        let Ok(data) = file.range(info) else { continue };
        let data = data.start as u64;
        let (begin, end) = (data + run.from, data + run.to);
        let continued = open.take().filter(|(_, end)| run.from == 0 && begin.saturating_sub(*end) <= SLACK);
        let continued = continued.map(|(severity, _)| severity);
        let Some(severity) = judge(run, data, row_bytes).or(continued) else { continue };
        open = (run.to == info.n_bytes).then_some((severity, end));
        // One finding for each tensor is enough.
        if named.replace(run.tensor) == Some(run.tensor) {
            continue;
        }
        let middle = if run.from.is_multiple_of(row_bytes) { "" } else { "the middle of " };
        let message = format!(
            "tensor `{}` ({}): {} bytes from byte {begin} of the file are zero, from {middle}row {}; the file may be an incomplete \
                download or copy",
            info.name,
            info.dtype,
            run.to - run.from,
            run.from / row_bytes
        );
        found.push(Finding { severity, code: "hole", message });
    }
    found
}

/// Severity of a run in a tensor that begins at byte `data` of its file; `None` for zeros that may be weights. A hole is certain
/// if it begins or ends at a page of the file as well.
fn judge(run: Run, data: u64, row_bytes: u64) -> Option<Severity> {
    let is_near = |at: u64, unit: u64| at % unit <= SLACK || unit - at % unit <= SLACK;
    if row_bytes == 0 || run.to - run.from < MIN_RUN.max(2 * row_bytes) {
        return None;
    }
    if is_near(run.from, row_bytes) && is_near(run.to, row_bytes) {
        return None;
    }
    if is_near(data + run.from, PAGE) || is_near(data + run.to, PAGE) {
        Some(Severity::Error)
    } else {
        Some(Severity::Warning)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_found_with_their_ends() {
        let mut bytes = vec![7u8; 40_000];
        for range in [0..3, 5000..5100, 9001..14_000, 20_000..24_095, 30_000..34_096, 39_990..40_000] {
            bytes[range].fill(0);
        }
        assert_eq!(zero_runs(&bytes), [0..3, 9001..14_000, 30_000..34_096, 39_990..40_000]);
        assert_eq!(zero_runs(&[0; 1000]).first(), Some(&(0..1000)));
        assert!(zero_runs(&[]).is_empty() && zero_runs(&[1; 5000]).is_empty());
        // Cut anywhere, the pieces join to the same run.
        for at in [9001, 9500, 10_000, 13_999, 14_001] {
            let (a, b) = bytes.split_at(at);
            let shifted = zero_runs(b).into_iter().map(|run| run.start + at..run.end + at);
            let all: Vec<_> = zero_runs(a).into_iter().chain(shifted).collect();
            let sum: usize = all
                .iter()
                .filter(|run| (9001..14_000).contains(&run.start))
                .map(ExactSizeIterator::len)
                .sum();
            assert_eq!(sum, 4999, "{at}: {all:?}");
        }
    }

    #[test]
    fn whole_rows_are_not_holes() {
        let judged = |from, to, data| judge(Run { tensor: 0, from, to }, data, 2000);
        assert_eq!(judged(4000, 40_000, 96), None);
        assert_eq!(judged(3998, 40_001, 96), None);
        assert_eq!(judged(4500, 8400, 96), None);
        assert_eq!(judged(4500, 40_000, 96), Some(Severity::Warning));
        assert_eq!(judged(4000, 40_864, 96), Some(Severity::Error));
    }
}

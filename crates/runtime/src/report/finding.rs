//! The main result of a comparison, as a sentence.

use super::{FileReport, Report, labels_of};
use crate::stats::{Estimate, significant};
use gguf_types::counted;

/// Exceptions that the sentence names; the others are counted.
const SHOWN: usize = 3;
/// Chunks from which files are ranked: with fewer, the quantile of Student's t is far above two standard errors.
const MIN_CHUNKS: usize = 5;
/// Chunks from which metrics are precise enough to choose a file.
pub const ENOUGH_CHUNKS: usize = 20;

impl Report {
    /// KL divergence of a file minus that of another, paired by chunk.
    pub fn difference(&self, first: usize, second: usize) -> Estimate {
        Estimate::paired(&self.files[first].kl_by_chunk, &self.files[second].kl_by_chunk)
    }

    /// This report with the difference of each file from the first.
    #[must_use]
    pub fn with_differences(mut self) -> Report {
        for index in 1..self.files.len() {
            let is_measured = self.files[index].predictions.is_some();
            self.files[index].kl_difference = is_measured.then(|| self.difference(0, index));
        }
        self
    }

    /// The files that are the best for their size, and those that are not. A file is better or worse only if the paired
    /// difference exceeds two standard errors, [widened](Estimate::widened) for few chunks. Fewer than five chunks rank no
    /// files. Sizes that differ by less than a thousandth are the same. `None` for fewer than two measured files.
    pub fn finding(&self) -> Option<String> {
        let mut order: Vec<usize> =
            (0..self.files.len()).filter(|index| self.mean_kl(*index).is_finite()).collect();
        order.sort_by_key(|index| self.files[*index].bytes);
        let mut sizes = vec![0; self.files.len()];
        let mut size = 0;
        for &index in &order {
            let bytes = self.files[index].bytes;
            if bytes.saturating_sub(size) > size / 1000 {
                size = bytes;
            }
            sizes[index] = size;
        }
        order.sort_by(|a, b| sizes[*a].cmp(&sizes[*b]).then(self.mean_kl(*a).total_cmp(&self.mean_kl(*b))));
        let (first, rest) = order.split_first().filter(|(_, rest)| !rest.is_empty())?;
        let chunks = counted(self.chunks, "chunk");
        if self.chunks < MIN_CHUNKS {
            let are = if self.chunks == 1 { "is" } else { "are" };
            return Some(format!("{chunks} of text {are} too few to rank these files: measure more chunks."));
        }
        let names = labels_of(self);
        let (mut best, mut exceptions) = (vec![*first], Vec::new());
        for &file in rest {
            let smaller = *best.last().unwrap_or(first);
            let excess = self.difference(smaller, file);
            let gain = Estimate { value: -excess.value, ..excess };
            if gain.widened(self.chunks).is_surely_positive() {
                best.push(file);
                continue;
            }
            let (name, than) = (&names[file], &names[smaller]);
            let size = if sizes[file] > sizes[smaller] {
                format!("{name} is larger than {than}")
            } else {
                format!("{name} is as large as {than}")
            };
            exceptions.push(if excess.widened(self.chunks).is_surely_positive() {
                format!("{size} and worse (by {excess} nats)")
            } else if gain.is_surely_positive() || excess.is_surely_positive() {
                format!("{size}, and {chunks} are too few to rank the two")
            } else {
                format!("{size} and not measurably better")
            });
        }
        let step = self.largest_step(&best).map(|(from, to)| {
            let megabytes = (self.files[to].bytes - self.files[from].bytes) as f64 / 1e6;
            let times = significant(self.mean_kl(from) / self.mean_kl(to), 2);
            format!(
                " The divergence falls fastest from {} to {}: {times} times lower for {} MB more.",
                names[from],
                names[to],
                significant(megabytes, 2)
            )
        });
        let mut step = step.unwrap_or_default();
        if self.chunks < ENOUGH_CHUNKS {
            step += &format!(" {chunks} of text are few; {ENOUGH_CHUNKS} or more give precise metrics.");
        }
        if exceptions.is_empty() {
            let all = "Each file is the best for its size: every larger file has a smaller KL divergence.";
            return Some(all.to_owned() + &step);
        }
        let best = list(&best.iter().map(|index| names[*index].as_str()).collect::<Vec<_>>());
        let mut parts = vec![format!("Best for the size: {best}")];
        let n_left = exceptions.len().saturating_sub(SHOWN);
        parts.extend(exceptions.into_iter().take(SHOWN));
        parts.extend((n_left > 0).then(|| format!("{n_left} more files are not better than a smaller one")));
        Some(parts.join("; ") + "." + &step)
    }

    /// For three or more files, each larger and better than the previous one, the two between which the logarithm of the KL
    /// divergence falls fastest per byte.
    fn largest_step(&self, best: &[usize]) -> Option<(usize, usize)> {
        let slope = |&(from, to): &(usize, usize)| {
            let bytes = self.files[to].bytes - self.files[from].bytes;
            libm::log(self.mean_kl(from) / self.mean_kl(to)) / bytes as f64
        };
        let steps = best.windows(2).filter_map(|two| Some((*two.first()?, *two.get(1)?)));
        let steps = steps.filter(|step| best.len() > 2 && slope(step) > 0.0 && slope(step).is_finite());
        steps.max_by(|a, b| slope(a).total_cmp(&slope(b)))
    }

    fn mean_kl(&self, file: usize) -> f64 {
        self.files[file].predictions.as_ref().map_or(f64::NAN, |found| found.kl.value)
    }

    /// The files by size, the smallest first.
    pub fn by_size(&self) -> Vec<&FileReport> {
        let mut files: Vec<&FileReport> = self.files.iter().collect();
        files.sort_by_key(|file| file.bytes);
        files
    }
}

/// Names in a sentence: `a, b and c`.
fn list(names: &[&str]) -> String {
    match names {
        [before @ .., last] if !before.is_empty() => format!("{} and {last}", before.join(", ")),
        names => names.concat(),
    }
}

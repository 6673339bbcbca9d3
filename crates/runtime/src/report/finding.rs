//! The main result of a comparison, as a sentence.

use super::{FileReport, Report, labels_of};
use crate::stats::Estimate;

/// Exceptions that the sentence names; the others are counted.
const SHOWN: usize = 3;

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
    /// difference exceeds two standard errors. `None` for fewer than two measured files.
    pub fn finding(&self) -> Option<String> {
        let kl =
            |index: &usize| self.files[*index].predictions.as_ref().map_or(f64::NAN, |found| found.kl.value);
        let mut order: Vec<usize> = (0..self.files.len()).filter(|index| kl(index).is_finite()).collect();
        order.sort_by(|a, b| self.files[*a].bytes.cmp(&self.files[*b].bytes).then(kl(a).total_cmp(&kl(b))));
        let (first, rest) = order.split_first().filter(|(_, rest)| !rest.is_empty())?;
        if self.chunks < 2 {
            return Some("A single chunk of text is too short to rank the files.".to_owned());
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
            let size = if self.files[file].bytes > self.files[smaller].bytes {
                format!("{name} is larger than {than}")
            } else {
                format!("{name} is as large as {than}")
            };
            exceptions.push(if excess.widened(self.chunks).is_surely_positive() {
                format!("{size} and worse (by {excess} nats)")
            } else {
                format!("{size} and not measurably better")
            });
        }
        if exceptions.is_empty() {
            return Some(
                "Each file is the best for its size: every larger file has a smaller KL divergence."
                    .to_owned(),
            );
        }
        let best = list(&best.iter().map(|index| names[*index].as_str()).collect::<Vec<_>>());
        let mut parts = vec![format!("Best for the size: {best}")];
        let n_left = exceptions.len().saturating_sub(SHOWN);
        parts.extend(exceptions.into_iter().take(SHOWN));
        parts.extend((n_left > 0).then(|| format!("{n_left} more files are not better than a smaller one")));
        Some(parts.join("; ") + ".")
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

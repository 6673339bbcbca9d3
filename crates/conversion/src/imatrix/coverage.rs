//! Coverage of a model by an importance matrix, before anything is encoded.

use crate::recipes::TensorFacts;

use super::{Entry, Imatrix, names_of, values_of};

/// Importance data for one tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Status {
    /// An entry of the right size.
    Covered {
        /// Minimum and maximum over its matrices: tokens in GGUF, calls in the older format.
        seen: (i64, i64),
        /// Experts without data, which get weights of one. The older format does not record them.
        experts_without_data: Vec<usize>,
        /// Number of experts with their own weights in the entry.
        n_experts: usize,
        /// Columns whose weight is exactly zero, per thousand.
        zeros: u32,
    },
    /// An entry of another size.
    WrongSize {
        /// Row length times experts.
        expected: u64,
        /// Values in the entry.
        found: u64,
    },
    /// No entry.
    Missing,
    /// Entry removed by filters.
    Filtered,
}

/// One tensor of the report.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TensorCoverage {
    /// Name of the tensor.
    pub name: String,
    /// Its importance data.
    pub status: Status,
}

/// Fit of an importance matrix to a model.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Coverage {
    /// Reported tensors, in order.
    pub tensors: Vec<TensorCoverage>,
    /// Entries that match no reported tensor.
    pub unused: Vec<String>,
}

/// Reports on `tensors`: those that will be encoded, under their names in the model that the matrix was made
/// for.
pub fn coverage(imatrix: &Imatrix, tensors: &[TensorFacts<'_>]) -> Coverage {
    let status = |tensor: &TensorFacts<'_>| match imatrix.entry(tensor.name) {
        None if imatrix.filtered.contains(tensor.name) => Status::Filtered,
        None => Status::Missing,
        Some(entry) => status_of(entry, values_of(tensor)),
    };
    let rows =
        tensors.iter().map(|tensor| TensorCoverage { name: tensor.name.to_owned(), status: status(tensor) });
    let names: std::collections::HashSet<&str> = tensors.iter().map(|tensor| tensor.name).collect();
    // Entries of copied tensors count as unused, because this run does not need them.
    let is_used = |name: &&String| names_of(name).any(|name| names.contains(name.as_ref()));
    let unused = imatrix.entries.keys().filter(|name| !is_used(name)).cloned();
    Coverage { tensors: rows.collect(), unused: unused.collect() }
}

fn status_of(entry: &Entry, expected: u64) -> Status {
    let found = entry.weights.len() as u64;
    if found != expected {
        return Status::WrongSize { expected, found };
    }
    let n_zeros = entry.weights.iter().filter(|weight| **weight == 0.0).count() as u64;
    let least = entry.seen.iter().copied().min().unwrap_or(0);
    let most = entry.seen.iter().copied().max().unwrap_or(0);
    let without = entry.seen.iter().enumerate().filter(|(_, seen)| **seen <= 0).map(|(expert, _)| expert);
    Status::Covered {
        seen: (least, most),
        experts_without_data: without.collect(),
        n_experts: entry.seen.len(),
        zeros: (n_zeros * 1000 / found.max(1)) as u32,
    }
}

impl Coverage {
    /// True if the matrix most likely belongs to another model: it has entries, but no match.
    pub fn is_for_another_model(&self) -> bool {
        let fits = |row: &TensorCoverage| matches!(row.status, Status::Covered { .. });
        // An empty matrix, or one that filters left empty, fits any model.
        let is_useful = !self.unused.is_empty()
            || self.tensors.iter().any(|row| !matches!(row.status, Status::Missing | Status::Filtered));
        is_useful && !self.tensors.is_empty() && !self.tensors.iter().any(fits)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use gguf_types::{DType, Shape};

    use super::*;
    use crate::imatrix::Format;

    #[test]
    fn coverage_lists_present_and_missing_tensors() {
        let entry = |n: usize, seen: &[i64]| Entry { weights: vec![1.0; n], seen: seen.to_vec() };
        let entries = BTreeMap::from([
            ("a".to_owned(), entry(12, &[5, 0, 7])),
            ("b".to_owned(), entry(4, &[9])),
            ("z".to_owned(), entry(4, &[9])),
        ]);
        let imatrix = Imatrix {
            entries,
            filtered: ["d".to_owned()].into(),
            datasets: vec![],
            n_chunks: 1,
            chunk_tokens: 9,
            format: Format::Gguf,
        };
        let tensor =
            |name, dims: &[u64]| TensorFacts { name, shape: Shape::new(dims).unwrap(), dtype: DType::F32 };
        let report = coverage(
            &imatrix,
            &["a", "b", "c", "d"].map(|name| tensor(name, if name == "a" { &[4, 2, 3] } else { &[8, 2] })),
        );
        let statuses: Vec<&Status> = report.tensors.iter().map(|row| &row.status).collect();
        let partial = Status::Covered { seen: (0, 7), experts_without_data: vec![1], n_experts: 3, zeros: 0 };
        let wrong = Status::WrongSize { expected: 8, found: 4 };
        assert_eq!(statuses, [&partial, &wrong, &Status::Missing, &Status::Filtered]);
        assert_eq!(report.unused, ["z"]);
        assert!(!report.is_for_another_model());
        assert!(coverage(&imatrix, &[tensor("c", &[8, 2])]).is_for_another_model());
    }
}

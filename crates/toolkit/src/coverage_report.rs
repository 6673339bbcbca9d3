//! Coverage of the tensors to encode by an importance matrix.

use std::{collections::BTreeSet, path::PathBuf};

use gguf_conversion::{
    PlannedFile,
    imatrix::{Coverage, Imatrix, Status, coverage},
    recipes::{Category, TensorFacts},
};

/// Report on the coverage of a model by an importance matrix.
pub struct CoverageReport {
    /// Covered and uncovered tensors.
    pub coverage: Coverage,
    n_entries: usize,
}

impl CoverageReport {
    /// About all tensors that some of `files` quantizes anew.
    pub fn new(
        imatrix: &Imatrix,
        tensors: &[TensorFacts<'_>],
        files: &[(PathBuf, &PlannedFile)],
    ) -> CoverageReport {
        let choices = files.iter().flat_map(|(_, file)| &file.choices);
        let encoded = choices
            .filter(|choice| choice.dtype.is_quantized() && tensors[choice.tensor].dtype != choice.dtype)
            .map(|choice| choice.tensor);
        let encoded: BTreeSet<usize> = encoded.collect();
        let encoded: Vec<TensorFacts<'_>> = encoded.into_iter().map(|index| tensors[index]).collect();
        CoverageReport { coverage: coverage(imatrix, &encoded), n_entries: imatrix.entries.len() }
    }

    /// One line about all.
    pub fn summary(&self) -> String {
        let seen: Vec<(i64, i64)> = self
            .coverage
            .tensors
            .iter()
            .filter_map(|tensor| match &tensor.status {
                Status::Covered { seen, .. } => Some(*seen),
                _ => None,
            })
            .collect();
        let least = seen.iter().map(|seen| seen.0).min().unwrap_or(0);
        let most = seen.iter().map(|seen| seen.1).max().unwrap_or(0);
        format!(
            "importance matrix of {} entries: {} of {} tensors have data, from {least} to {most} tokens; {} \
            entries are unused",
            self.n_entries,
            seen.len(),
            self.coverage.tensors.len(),
            self.coverage.unused.len()
        )
    }

    /// Warnings about tensors and experts that seem to be covered but are not. Matrices never include the
    /// token embedding and, unless requested, the output matrix, so these are not reported.
    pub fn warnings(&self) -> Vec<String> {
        let mut missing = Vec::new();
        let mut lines = Vec::new();
        for tensor in &self.coverage.tensors {
            let ends = matches!(Category::of(&tensor.name), Category::TokenEmbd | Category::Output);
            match &tensor.status {
                Status::Missing if !ends => missing.push(tensor.name.as_str()),
                Status::Covered { experts_without_data, n_experts, .. }
                    if !experts_without_data.is_empty() =>
                {
                    let experts: Vec<String> = experts_without_data.iter().map(usize::to_string).collect();
                    lines.push(format!(
                        "importance matrix: tensor `{}`: {} of {n_experts} experts received no tokens: {}",
                        tensor.name,
                        experts.len(),
                        experts.join(", ")
                    ));
                }
                _ => {}
            }
        }
        if let [first, rest @ ..] = &missing[..] {
            let more = if rest.is_empty() { String::new() } else { format!(" and {} more", rest.len()) };
            lines.push(format!("importance matrix: no data for tensor `{first}`{more}"));
        }
        lines
    }

    /// A line for each tensor.
    pub fn details(&self) -> Vec<String> {
        let line = |status: &Status| match status {
            Status::Covered { seen: (least, most), n_experts: 0 | 1, .. } if least == most => {
                format!("{most} tokens")
            }
            Status::Covered { seen: (least, most), n_experts, .. } => {
                format!("{least} to {most} tokens, {n_experts} experts")
            }
            Status::WrongSize { expected, found } => format!("expected {expected} values, found {found}"),
            Status::Missing => "no data".to_owned(),
            _ => "?".to_owned(),
        };
        let tensors = self.coverage.tensors.iter();
        tensors
            .map(|tensor| format!("importance matrix: {}: {}", tensor.name, line(&tensor.status)))
            .collect()
    }
}

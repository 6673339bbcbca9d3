//! Coverage of the tensors to encode by an importance matrix.

use std::{collections::BTreeSet, path::PathBuf};

use gguf_conversion::{
    PlannedFile,
    imatrix::{Coverage, Imatrix, Status, coverage, same_input},
    recipes::{Category, TensorFacts},
};
use gguf_types::and_more;

/// Report on the coverage of a model by an importance matrix.
pub struct CoverageReport {
    /// Covered and uncovered tensors.
    pub coverage: Coverage,
    n_entries: usize,
    /// Tensors that need data and use those of another tensor with the same input: both names.
    stand_ins: Vec<(String, String)>,
}

/// Zero columns per thousand from which data are doubtful.
const SPARSE: u32 = 950;

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
        let needy = files.iter().flat_map(|(_, file)| &file.choices).filter(|choice| choice.requires_imatrix);
        let needy: BTreeSet<usize> = needy.map(|choice| choice.tensor).collect();
        let stand_in = |index: usize| {
            let tensor = &tensors[index];
            let (other, _) =
                same_input(imatrix, tensor).filter(|_| !imatrix.entries.contains_key(tensor.name))?;
            Some((tensor.name.to_owned(), other.to_owned()))
        };
        CoverageReport {
            coverage: coverage(imatrix, &encoded),
            n_entries: imatrix.entries.len(),
            stand_ins: needy.into_iter().filter_map(stand_in).collect(),
        }
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
        let (mut missing, mut sparse) = (Vec::new(), Vec::new());
        let mut lines = Vec::new();
        for tensor in &self.coverage.tensors {
            let ends = matches!(Category::of(&tensor.name), Category::TokenEmbd | Category::Output);
            match &tensor.status {
                Status::Missing if !ends && !self.has_stand_in(&tensor.name) => {
                    missing.push(tensor.name.as_str())
                }
                Status::Covered { zeros: SPARSE.., .. } => sparse.push(tensor.name.as_str()),
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
            lines.push(format!("importance matrix: no data for tensor `{first}`{}", and_more(rest.len())));
        }
        if let [first, rest @ ..] = &sparse[..] {
            lines.push(format!(
                "importance matrix: tensor `{first}`{}: nearly all columns are zero; the matrix may be damaged or of another model",
                and_more(rest.len())
            ));
        }
        lines
    }

    fn has_stand_in(&self, tensor: &str) -> bool {
        self.stand_ins.iter().any(|(name, _)| name == tensor)
    }

    /// Notes about data that are not used, and about tensors that use the data of others.
    pub fn notes(&self) -> Vec<String> {
        let filtered =
            self.coverage.tensors.iter().filter(|tensor| tensor.status == Status::Filtered).count();
        let filtered = (filtered > 0)
            .then(|| format!("importance matrix: the data of {filtered} tensors are not used, as requested"));
        let stand_in = self.stand_ins.first().map(|(name, other)| {
            let more = match self.stand_ins.len() - 1 {
                0 => String::new(),
                n => format!(" (and {n} more like it)"),
            };
            format!(
                "importance matrix: tensor `{name}`{more} uses the data of `{other}`, which has the same input"
            )
        });
        filtered.into_iter().chain(stand_in).collect()
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
            Status::Filtered => "data not used".to_owned(),
            _ => "?".to_owned(),
        };
        let tensors = self.coverage.tensors.iter();
        tensors
            .map(|tensor| format!("importance matrix: {}: {}", tensor.name, line(&tensor.status)))
            .collect()
    }
}

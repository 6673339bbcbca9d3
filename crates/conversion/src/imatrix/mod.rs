//! Importance matrices: the weight of each column of a matrix.
//!
//! The crate `imatrix` reads the files. This module computes the weights, bit-exact with the reference: the
//! mean square of each input column of a matrix, with one row per expert for a stack.
//!
//! Source: `common_imatrix_load` in `common/imatrix-loader.cpp` and `load_imatrix` in
//! `tools/quantize/quantize.cpp`, llama.cpp as vendored in llama-cpp-python 0.3.36.

mod coverage;
mod error;
mod missing;
mod provenance;

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use gguf_container::Mapped;
use gguf_imatrix::Sums;

use crate::recipes::{Category, TensorFacts};

pub use gguf_imatrix::Format;

pub use self::{
    coverage::{Coverage, Status, TensorCoverage, coverage},
    error::ImatrixError,
    missing::{MissingPolicy, neighbour, raised, same_input},
    provenance::provenance,
};

/// An importance matrix.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Imatrix {
    /// Entries by the name of their tensor.
    pub entries: BTreeMap<String, Entry>,
    /// Tensors whose entries were removed by filters.
    pub filtered: BTreeSet<String>,
    /// Text files that it was made from: paths, as recorded by its maker.
    pub datasets: Vec<String>,
    /// Number of text chunks; 0 if unknown.
    pub n_chunks: i64,
    /// Tokens per chunk; 0 if unknown.
    pub chunk_tokens: u32,
    /// File format of the matrix.
    pub format: Format,
}

/// Weights of one tensor.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Entry {
    /// Mean squares: (n_matrices, row_elems), row-major. All ones for a matrix without data.
    pub weights: Vec<f32>,
    /// Counts per matrix, if the file has them: tokens in GGUF (one number per matrix, or one for all), calls
    /// in the older format (one number).
    pub seen: Vec<i64>,
}

impl Imatrix {
    /// Maps and reads the file at `path` in either format.
    ///
    /// # Errors
    /// [`ImatrixError::File`].
    pub fn open(path: &Path) -> Result<Imatrix, ImatrixError> {
        Ok(Imatrix::from_sums(Sums::open(path).map_err(ImatrixError::File)?))
    }

    /// Reads a mapped or in-memory file. [`Imatrix::check`] checks the weights separately, because
    /// filters come first.
    ///
    /// # Errors
    /// [`ImatrixError::File`].
    pub fn parse(bytes: impl Into<Mapped>) -> Result<Imatrix, ImatrixError> {
        Ok(Imatrix::from_sums(Sums::parse(bytes).map_err(ImatrixError::File)?))
    }

    /// Means per matrix, from sums.
    pub fn from_sums(sums: Sums) -> Imatrix {
        let Sums { entries, datasets, n_chunks, chunk_tokens, format } = sums;
        let entries = entries.into_iter().map(|(name, entry)| (name, Entry::new(entry, format))).collect();
        Imatrix { entries, filtered: BTreeSet::new(), datasets, n_chunks, chunk_tokens, format }
    }

    /// Keeps the entries whose name contains one of `parts` (`--include-weights`), or all if `parts` is empty.
    /// Source: `prepare_imatrix` in `tools/quantize/quantize.cpp`.
    pub fn include(&mut self, parts: &[String]) {
        self.keep(|name| parts.is_empty() || parts.iter().any(|part| name.contains(part.as_str())));
    }

    /// Drops the entries whose name contains one of `parts` (`--exclude-weights`).
    pub fn exclude(&mut self, parts: &[String]) {
        self.keep(|name| !parts.iter().any(|part| name.contains(part.as_str())));
    }

    fn keep(&mut self, is_kept: impl Fn(&str) -> bool) {
        let dropped = self.entries.keys().filter(|name| !is_kept(name)).cloned();
        self.filtered.extend(dropped);
        self.entries.retain(|name, _| is_kept(name));
    }

    /// Checks every weight. Like the reference, it rejects a file for one invalid weight, used or not.
    ///
    /// # Errors
    /// [`ImatrixError::Invalid`] with the first weight that is not finite or negative.
    pub fn check(&self) -> Result<(), ImatrixError> {
        // In name order, so that the error is reproducible.
        for (name, entry) in &self.entries {
            if let Some(index) =
                entry.weights.iter().position(|weight| !(weight.is_finite() && *weight >= 0.0))
            {
                let (entry, value) = (name.clone(), entry.weights[index]);
                return Err(ImatrixError::Invalid { entry, index, value });
            }
        }
        Ok(())
    }

    /// The entry of a tensor, under its name or with the prefix of diffusion models in files of stable-diffusion.cpp.
    pub fn entry(&self, name: &str) -> Option<&Entry> {
        let mut names = names_of(name);
        names.find_map(|name| self.entries.get(name.as_ref()))
    }

    /// Weights for a tensor, (n_experts, row_elems), or `None` if it has no entry. Like in the reference, a
    /// token embedding ignores an entry of the wrong size.
    ///
    /// `name` is the tensor's name in the model that the matrix was made for, which differs after pruning
    /// layers.
    ///
    /// # Errors
    /// [`ImatrixError::WrongSize`].
    pub fn weights(&self, name: &str, tensor: &TensorFacts<'_>) -> Result<Option<&[f32]>, ImatrixError> {
        let Some(entry) = self.entry(name) else { return Ok(None) };
        let (expected, found) = (values_of(tensor), entry.weights.len() as u64);
        if expected == found {
            Ok(Some(&entry.weights))
        } else if Category::of(name) == Category::TokenEmbd {
            Ok(None)
        } else {
            Err(ImatrixError::WrongSize { tensor: name.to_owned(), expected, found })
        }
    }
}

/// Tensor name prefix in matrices computed by stable-diffusion.cpp (`docs/imatrix.md`).
const DIFFUSION_PREFIX: &str = "model.diffusion_model.";

/// Names that a matrix or a file may have for a tensor.
pub(super) fn names_of(name: &str) -> impl Iterator<Item = Cow<'_, str>> {
    let other = match name.strip_prefix(DIFFUSION_PREFIX) {
        Some(own) => Cow::Borrowed(own),
        None => Cow::Owned(format!("{DIFFUSION_PREFIX}{name}")),
    };
    [Cow::Borrowed(name), other].into_iter()
}

impl Entry {
    /// Divides sums by counts. A matrix without data gets ones here for GGUF; the older format stores means,
    /// with ones already.
    fn new(entry: gguf_imatrix::Entry, format: Format) -> Entry {
        let gguf_imatrix::Entry { mut sums, counts } = entry;
        // sums: (n_matrices, row_elems), counts: (n_matrices,). The mean square of column j of matrix m is sums[m][j] / counts[m].
        let row_elems = (sums.len() / counts.len().max(1)).max(1);
        for (row, &count) in sums.chunks_exact_mut(row_elems).zip(&counts) {
            match format {
                // In f32, like the reference.
                _ if count > 0 => row.iter_mut().for_each(|sum| *sum /= count as f32),
                Format::Gguf => row.fill(1.0),
                Format::Legacy => {}
            }
        }
        Entry { weights: sums, seen: counts }
    }
}

/// Number of weights for a tensor: a row per matrix of a stack.
fn values_of(tensor: &TensorFacts<'_>) -> u64 {
    tensor.shape.row_elems().saturating_mul(tensor.shape.dim(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_sums_over_counts() {
        let sums = vec![1.0, 2.0, 3.0, f32::NAN, 5.0, 7.0];
        let stored = |counts: &[i64]| gguf_imatrix::Entry { sums: sums.clone(), counts: counts.to_vec() };
        let entry = Entry::new(stored(&[3, 0, 3]), Format::Gguf);
        assert_eq!(entry.seen, [3, 0, 3]);
        assert_eq!(entry.weights, [1.0 / 3.0, 2.0 / 3.0, 1.0, 1.0, 5.0 / 3.0, 7.0 / 3.0]);
        assert_eq!(Entry::new(stored(&[-3]), Format::Gguf).weights, [1.0; 6]);
        assert_eq!(Entry::new(stored(&[2]), Format::Legacy).weights[..3], [0.5, 1.0, 1.5]);
        assert_eq!(Entry::new(stored(&[0]), Format::Legacy).weights[..3], sums[..3]);
    }
}

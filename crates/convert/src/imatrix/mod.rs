//! Importance matrices: how much each column of a weight matters.
//!
//! For every matrix an importance matrix holds the mean square of what went into each of its
//! columns while the model read some text; for a stack of experts one such row for each expert.
//! Both file formats of the reference are read: GGUF (`gguf_form.rs`) and the older plain binary
//! (`legacy.rs`). What comes out is what its tool makes of them, value for value.
//!
//! Source: `common_imatrix_load` in `common/imatrix-loader.cpp` and `load_imatrix` in
//! `tools/quantize/quantize.cpp`, llama.cpp as vendored in llama-cpp-python 0.3.36. It reads
//! files that this refuses: GGUF sums that do not divide among their counts, names that are no
//! UTF-8, and a trailer cut short.

mod coverage;
mod error;
mod gguf_form;
mod legacy;
mod missing;
mod provenance;

use std::{collections::BTreeMap, path::Path};

use gguf::{MAGIC, Mapped};

use crate::recipes::{Category, TensorFacts};

pub use self::{
    coverage::{Coverage, Status, TensorCoverage, coverage},
    error::ImatrixError,
    missing::{MissingPolicy, Substitute, raised, substitute},
    provenance::provenance,
};

/// Which of the two formats a file has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// GGUF, with sums and counts as tensors.
    Gguf,
    /// The older binary, with means scaled by a number of calls.
    Legacy,
}

/// An importance matrix.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Imatrix {
    /// Entries by the name of their tensor.
    pub entries: BTreeMap<String, Entry>,
    /// What text it was made of: paths, as its maker knew them.
    pub datasets: Vec<String>,
    /// Pieces of text that it was made of; 0 where the file does not say.
    pub n_chunks: i64,
    /// Tokens in each; 0 where the file does not say.
    pub chunk_tokens: u32,
    /// The format that it came in.
    pub format: Format,
}

/// The weights of one tensor.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Entry {
    /// Mean squares: (n_matrices, row_elems), row-major. All ones for a matrix without data.
    pub weights: Vec<f32>,
    /// What each matrix saw, if the file says: tokens in GGUF (one number for each matrix, or
    /// one for all), calls in the older format (one number).
    pub seen: Vec<i64>,
}

impl Imatrix {
    /// Maps and reads the file at `path`, whichever format it has.
    ///
    /// # Errors
    /// As [`Imatrix::parse`], and [`ImatrixError::Open`] when it cannot be mapped.
    pub fn open(path: &Path) -> Result<Imatrix, ImatrixError> {
        let bytes = Mapped::open(path).map_err(ImatrixError::Open)?;
        Imatrix::parse(bytes)
    }

    /// Reads a file that is mapped or in memory.
    ///
    /// # Errors
    /// One variant of [`ImatrixError`] for each way to be wrong. Lengths are checked against
    /// the length of the file before anything is allocated for them. Whether weights are
    /// finite is [`Imatrix::check_finite`]'s question, since filters come first.
    pub fn parse(bytes: impl Into<Mapped>) -> Result<Imatrix, ImatrixError> {
        let bytes = bytes.into();
        if bytes.starts_with(&MAGIC) { gguf_form::parse(bytes) } else { legacy::parse(&bytes) }
    }

    /// Keeps the entries whose name holds one of `parts` (`--include-weights`); all, if there
    /// are none. Source: `prepare_imatrix` in `tools/quantize/quantize.cpp`.
    pub fn include(&mut self, parts: &[String]) {
        self.entries
            .retain(|name, _| parts.is_empty() || parts.iter().any(|part| name.contains(part.as_str())));
    }

    /// Drops the entries whose name holds one of `parts` (`--exclude-weights`).
    pub fn exclude(&mut self, parts: &[String]) {
        self.entries.retain(|name, _| !parts.iter().any(|part| name.contains(part.as_str())));
    }

    /// Checks every weight. The reference refuses a file with one bad weight, used or not.
    ///
    /// # Errors
    /// [`ImatrixError::NonFinite`] with the first.
    pub fn check_finite(&self) -> Result<(), ImatrixError> {
        for (name, entry) in &self.entries {
            if let Some(index) = entry.weights.iter().position(|weight| !weight.is_finite()) {
                let (entry, value) = (name.clone(), entry.weights[index]);
                return Err(ImatrixError::NonFinite { entry, what: "weight", index, value });
            }
        }
        Ok(())
    }

    /// The weights for a tensor, (n_experts, row_elems), or `None` where there is no entry.
    /// An entry of the wrong size counts as none for a token embedding, as in the reference.
    ///
    /// `name` is the tensor's name in the model that the matrix was made for, which pruning of
    /// layers changes.
    ///
    /// # Errors
    /// [`ImatrixError::WrongSize`].
    pub fn weights(&self, name: &str, tensor: &TensorFacts<'_>) -> Result<Option<&[f32]>, ImatrixError> {
        let Some(entry) = self.entries.get(name) else { return Ok(None) };
        let (expected, found) = (values_of(tensor), entry.weights.len() as u64);
        match expected == found {
            true => Ok(Some(&entry.weights)),
            false if Category::of(name) == Category::TokenEmbd => Ok(None),
            false => Err(ImatrixError::WrongSize { tensor: name.to_owned(), expected, found }),
        }
    }
}

/// How many weights a tensor takes: a row for each matrix of a stack.
fn values_of(tensor: &TensorFacts<'_>) -> u64 {
    tensor.shape.row_elems().saturating_mul(tensor.shape.dim(2))
}

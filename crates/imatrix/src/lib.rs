//! Importance matrix files: statistics of the inputs of a model's matrices.
//!
//! For every matrix, an importance matrix stores the sum of squares of each input column over some text, and
//! the number of rows; for a stack of experts, one row of sums and one count per expert. Both file formats of
//! the reference are read and written: GGUF (`gguf_form.rs`) and the older binary format (`legacy.rs`). This
//! crate is independent of models: sums are identified by name.
//!
//! Source: `common_imatrix_load` in `common/imatrix-loader.cpp` and `IMatrixCollector` in
//! `tools/imatrix/imatrix.cpp`, llama.cpp as vendored in llama-cpp-python 0.3.36. It accepts files that this
//! crate refuses: GGUF sums that are not multiples of their counts, names that are not UTF-8, and a truncated
//! trailer.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr, clippy::exit))]
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

mod error;
mod gguf_form;
mod legacy;
mod statistics;

use std::{collections::BTreeMap, path::Path};

use gguf_container::{MAGIC, Mapped};

pub use error::Error;
pub use statistics::EntryStatistics;

/// Format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// GGUF, with sums and counts of tokens as tensors.
    Gguf,
    /// The older binary, with means scaled by a number of calls.
    Legacy,
}

impl Format {
    /// Both formats with their names on the command line, which are those of `llama-imatrix`.
    pub const ALL: &[(&'static str, Format)] = &[("gguf", Format::Gguf), ("dat", Format::Legacy)];
}

/// An importance matrix as stored in a file.
#[derive(Debug, Clone, PartialEq)]
pub struct Sums {
    /// Entries by the name of their tensor.
    pub entries: BTreeMap<String, Entry>,
    /// Text files that it was made from: paths, as recorded by its maker.
    pub datasets: Vec<String>,
    /// Number of text chunks; 0 if unknown.
    pub n_chunks: i64,
    /// Tokens per chunk; 0 if unknown.
    pub chunk_tokens: u32,
    /// File format, which determines the meaning of counts.
    pub format: Format,
}

/// Statistics of one tensor.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Entry {
    /// (n_matrices, row_elems), row-major: sums of squares over the tokens in GGUF; their means
    /// times the number of calls in the older format.
    pub sums: Vec<f32>,
    /// Counts per matrix: tokens in GGUF (one number per matrix, or one for all), calls in the older format
    /// (one number).
    pub counts: Vec<i64>,
}

impl Sums {
    /// An empty matrix for chunks of this many tokens.
    pub fn new(chunk_tokens: u32) -> Sums {
        let (entries, datasets) = (BTreeMap::new(), Vec::new());
        Sums { entries, datasets, n_chunks: 0, chunk_tokens, format: Format::Gguf }
    }

    /// Maps and reads the file at `path` in either format.
    ///
    /// # Errors
    /// Those of [`Sums::parse`], and [`Error::Open`] if it cannot be mapped.
    pub fn open(path: &Path) -> Result<Sums, Error> {
        let bytes = Mapped::open(path).map_err(Error::Open)?;
        Sums::parse(bytes)
    }

    /// Reads a file that is mapped or in memory.
    ///
    /// # Errors
    /// [`Error`], one variant per problem. Lengths are checked against the length of the file before
    /// allocating. Sums may be any float; counts are finite.
    pub fn parse(bytes: impl Into<Mapped>) -> Result<Sums, Error> {
        let bytes = bytes.into();
        if bytes.starts_with(&MAGIC) { gguf_form::parse(bytes) } else { legacy::parse(&bytes) }
    }

    /// Converts counts to tokens: a call of the older format is a chunk of `chunk_tokens` tokens, which the
    /// file does not store. Source: `IMatrixCollector::load_imatrix`.
    pub fn in_tokens(mut self, chunk_tokens: u32) -> Sums {
        if self.format == Format::Legacy {
            for entry in self.entries.values_mut() {
                entry.sums.iter_mut().for_each(|sum| *sum *= chunk_tokens as f32);
                entry.counts.iter_mut().for_each(|count| *count *= i64::from(chunk_tokens));
            }
            (self.format, self.chunk_tokens) = (Format::Gguf, chunk_tokens);
        }
        self
    }

    /// Adds another matrix of the same model; both count tokens. Entries of only one matrix are kept, and the
    /// number of chunks becomes that of the most used matrix.
    ///
    /// A single count applies to all matrices of a stack, in either operand (the reference accepts it in the
    /// first only).
    ///
    /// Source: `IMatrixCollector::load_imatrix`.
    ///
    /// # Errors
    /// [`Error::InvalidSum`] before adding; [`Error::SizesDiffer`], [`Error::TooMany`]; earlier additions
    /// stay.
    pub fn add(&mut self, other: &Sums) -> Result<(), Error> {
        other.check()?;
        for (name, other_count) in &other.entries {
            match self.entries.get_mut(name) {
                Some(own) => own.add(name, other_count)?,
                None => {
                    self.entries.insert(name.clone(), other_count.clone());
                }
            }
        }
        self.datasets.extend(other.datasets.iter().cloned());
        self.count_chunks();
        Ok(())
    }

    /// Checks that all sums are possible sums of squares.
    ///
    /// # Errors
    /// [`Error::InvalidSum`] with the first that is not finite or negative.
    pub fn check(&self) -> Result<(), Error> {
        for (name, entry) in &self.entries {
            if let Some(index) = entry.sums.iter().position(|sum| !(sum.is_finite() && *sum >= 0.0)) {
                return Err(Error::InvalidSum { entry: name.clone(), index, value: entry.sums[index] });
            }
        }
        Ok(())
    }

    /// Sets the number of chunks to that of the most used matrix.
    pub fn count_chunks(&mut self) {
        let most = self.entries.values().flat_map(|entry| &entry.counts).max().copied().unwrap_or(0);
        self.n_chunks = most / i64::from(self.chunk_tokens.max(1));
    }

    /// The file that the reference writes for this matrix, which counts tokens.
    ///
    /// # Errors
    /// [`Error::Gguf`] if a name is too long for the container; [`Error::Uneven`]; [`Error::TooMany`] and
    /// [`Error::Empty`] for the older format.
    pub fn to_bytes(&self, format: Format) -> Result<Vec<u8>, Error> {
        for (name, entry) in &self.entries {
            check_even(name, entry.sums.len(), entry.counts.len())?;
        }
        match format {
            Format::Gguf => gguf_form::to_bytes(self),
            Format::Legacy => legacy::to_bytes(self),
        }
    }
}

impl Entry {
    fn add(&mut self, name: &str, other: &Entry) -> Result<(), Error> {
        let differ =
            |item, expected, found| Error::SizesDiffer { entry: name.to_owned(), item, expected, found };
        if self.sums.len() != other.sums.len() {
            return Err(differ("sums", self.sums.len(), other.sums.len()));
        }
        let (own, other_count) = (self.counts.len(), other.counts.len());
        if own != other_count && own != 1 && other_count != 1 {
            return Err(differ("counts", own, other_count));
        }
        if own == 1 && other_count > 1 {
            self.counts = vec![self.counts[0]; other_count];
        }
        for (index, count) in self.counts.iter_mut().enumerate() {
            let other_count = other.counts.get(index).or(other.counts.first()).copied().unwrap_or(0);
            let found = count.unsigned_abs().saturating_add(other_count.unsigned_abs());
            *count = count
                .checked_add(other_count)
                .ok_or(Error::TooMany { item: "the sum of two counts", found })?;
        }
        self.sums.iter_mut().zip(&other.sums).for_each(|(own, other_count)| *own += other_count);
        Ok(())
    }
}

/// Refuses missing sums or counts, and sums whose number is not a multiple of the counts.
fn check_even(entry: &str, n_values: usize, n_counts: usize) -> Result<(), Error> {
    if n_values == 0 || n_counts == 0 || !n_values.is_multiple_of(n_counts) {
        let (n_values, n_counts) = (n_values as u64, n_counts as u64);
        return Err(Error::Uneven { entry: entry.to_owned(), n_values, n_counts });
    }
    Ok(())
}

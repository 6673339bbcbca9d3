//! Every way in which an importance matrix file can be wrong.

use gguf_types::DType;

/// Errors of an importance matrix file, or of adding two.
///
/// The caller that opened the file adds its path once.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum Error {
    /// The file cannot be opened or mapped.
    #[error("cannot open: {0}")]
    Open(#[source] std::io::Error),
    /// The file ends inside something.
    #[error("unexpected end of file in {item}: expected {needed} bytes at offset {offset}, found {left}")]
    Truncated {
        /// Item that was being read.
        item: &'static str,
        offset: u64,
        needed: u64,
        /// Bytes from there to the end of the file.
        left: u64,
    },
    /// A count or length that cannot be one.
    #[error("{item} at offset {offset}: expected at least {least}, found {found}")]
    BadCount {
        item: &'static str,
        offset: u64,
        found: i64,
        /// The smallest that is possible.
        least: i64,
    },
    /// A name that is not UTF-8.
    #[error("entry {index}: name is not valid UTF-8: `{}`", bytes.escape_ascii())]
    NameNotUtf8 { index: usize, bytes: Vec<u8> },
    /// The file holds nothing.
    #[error("no entries")]
    Empty,
    /// The container is wrong, or cannot be planned.
    #[error(transparent)]
    Gguf(gguf_container::Error),
    /// A key that every GGUF importance matrix has.
    #[error("metadata key `{key}`: expected {expected}")]
    MissingKey { key: &'static str, expected: &'static str },
    /// Sums without counts, or counts without sums.
    #[error("entry `{entry}`: missing tensor `{entry}{missing}`")]
    Unpaired {
        entry: String,
        /// The suffix of the tensor that is not there.
        missing: &'static str,
    },
    /// Sums or counts of another type.
    #[error("entry `{entry}`: tensor `{tensor}`: expected type f32, found {found}")]
    NotF32 { entry: String, tensor: String, found: DType },
    /// Sums that do not divide among the counts.
    #[error(
        "entry `{entry}`: the number of sums, {n_values}, is not a multiple of the number of counts, {n_counts}"
    )]
    Uneven { entry: String, n_values: u64, n_counts: u64 },
    /// A count that is no finite number.
    #[error("entry `{entry}`: count {index} is {value}, which is not finite")]
    CountNotFinite {
        entry: String,
        /// Index, from 0, over all experts.
        index: usize,
        value: f32,
    },
    /// A sum that no sum of squares can be: infinite, NaN or negative.
    #[error("entry `{entry}`: sum {index} is {value}, expected a finite number of at least 0")]
    InvalidSum {
        entry: String,
        /// Index of the sum, over all experts.
        index: usize,
        value: f32,
    },
    /// Two matrices of different models: one entry, two sizes.
    #[error("entry `{entry}`: {found} {item} cannot be added to {expected}")]
    SizesDiffer {
        entry: String,
        item: &'static str,
        /// Number in the matrix that is added to.
        expected: usize,
        found: usize,
    },
    /// More entries, values or calls than the 32 bits of a format can say, or a sum beyond 64.
    #[error("{item} {found} is out of range")]
    TooMany { item: &'static str, found: u64 },
}

//! Every way in which an importance matrix can be wrong.

use tensor::DType;

/// What is wrong with an importance matrix, or with its use for a model.
///
/// The path of the file is added once, by whoever opened it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImatrixError {
    /// The file cannot be opened or mapped.
    #[error("cannot be opened: {0}")]
    Open(#[source] std::io::Error),
    /// The file ends inside something.
    #[error("file ends inside {what}: {needed} bytes needed at offset {offset}, {left} left")]
    Truncated {
        /// What was being read.
        what: &'static str,
        /// Where it starts.
        offset: u64,
        /// Its length in bytes.
        needed: u64,
        /// Bytes from there to the end of the file.
        left: u64,
    },
    /// A count or length that cannot be one.
    #[error("{what} at offset {offset} is {found}, not a number from {least}")]
    BadCount {
        /// What is counted.
        what: &'static str,
        /// Where the number is.
        offset: u64,
        /// The number.
        found: i64,
        /// The smallest that is possible.
        least: i64,
    },
    /// A name of bytes that are no text.
    #[error("entry {index}: name is not valid UTF-8: `{}`", bytes.escape_ascii())]
    NameNotUtf8 {
        /// Which entry, from 0.
        index: usize,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// The file holds nothing.
    #[error("no entries")]
    Empty,
    /// The container is wrong.
    #[error(transparent)]
    Gguf(gguf::Error),
    /// A key that every GGUF importance matrix has.
    #[error("metadata key `{key}` is missing or not {expected}")]
    MissingKey {
        /// The key.
        key: &'static str,
        /// What it should hold.
        expected: &'static str,
    },
    /// Sums without counts, or counts without sums.
    #[error("entry `{entry}`: tensor `{entry}{missing}` is missing")]
    Unpaired {
        /// The entry.
        entry: String,
        /// The suffix of the tensor that is not there.
        missing: &'static str,
    },
    /// Sums or counts of another type.
    #[error("entry `{entry}`: tensor `{tensor}` is {found}, expected f32")]
    NotF32 {
        /// The entry.
        entry: String,
        /// The tensor.
        tensor: String,
        /// Its type.
        found: DType,
    },
    /// Sums that do not divide among the counts.
    #[error("entry `{entry}`: {n_values} sums do not divide among {n_counts} counts")]
    Uneven {
        /// The entry.
        entry: String,
        /// Number of sums.
        n_values: u64,
        /// Number of counts.
        n_counts: u64,
    },
    /// A weight or count that is no finite number.
    #[error("entry `{entry}`: {what} {index} is {value}, which is not finite")]
    NonFinite {
        /// The entry.
        entry: String,
        /// `weight` or `count`.
        what: &'static str,
        /// Which one, from 0, over all experts.
        index: usize,
        /// What it is.
        value: f32,
    },
    /// An entry of another shape than the tensor of its name: most likely of another model.
    #[error("tensor `{tensor}`: importance matrix has {found} values, expected {expected}")]
    WrongSize {
        /// The tensor.
        tensor: String,
        /// Row length times experts.
        expected: u64,
        /// Values in the entry.
        found: u64,
    },
    /// A dtype that cannot do without weights, for a tensor that has none.
    #[error("tensor `{tensor}`: {dtype} needs an importance matrix and it has no entry")]
    Missing {
        /// The tensor.
        tensor: String,
        /// The dtype.
        dtype: DType,
    },
    /// No entry could stand in for a missing one.
    #[error(
        "tensor `{tensor}`: {dtype} needs an importance matrix, and no other layer has an entry of its size"
    )]
    NoNeighbour {
        /// The tensor.
        tensor: String,
        /// The dtype.
        dtype: DType,
    },
}

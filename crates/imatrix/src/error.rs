use gguf_types::DType;

/// Errors of an importance matrix file, or of adding two. The caller that opened the file adds its path.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum Error {
    /// The file cannot be opened or mapped.
    #[error("cannot open: {0}")]
    Open(#[source] std::io::Error),
    /// The file ends within an item.
    #[error("unexpected end of file in {item}: expected {needed} bytes at offset {offset}, found {left}")]
    Truncated { item: &'static str, offset: u64, needed: u64, left: u64 },
    #[error("{item} at offset {offset}: expected at least {least}, found {found}")]
    BadCount { item: &'static str, offset: u64, found: i64, least: i64 },
    /// A name that is not UTF-8.
    #[error("entry {index}: name is not valid UTF-8: `{}`", bytes.escape_ascii())]
    NameNotUtf8 { index: usize, bytes: Vec<u8> },
    #[error("no entries")]
    Empty,
    /// The container is invalid, or cannot be planned.
    #[error(transparent)]
    Gguf(gguf_container::Error),
    /// A key that every GGUF importance matrix has.
    #[error("metadata key `{key}`: expected {expected}")]
    MissingKey { key: &'static str, expected: &'static str },
    /// Sums without counts, or counts without sums.
    #[error("entry `{entry}`: missing tensor `{entry}{missing}`")]
    Unpaired { entry: String, missing: &'static str },
    /// Sums or counts of another type.
    #[error("entry `{entry}`: tensor `{tensor}`: expected type f32, found {found}")]
    NotF32 { entry: String, tensor: String, found: DType },
    /// The number of sums is not a multiple of the number of counts.
    #[error(
        "entry `{entry}`: the number of sums, {n_values}, is not a multiple of the number of counts, {n_counts}"
    )]
    Uneven { entry: String, n_values: u64, n_counts: u64 },
    /// A count is not finite.
    #[error("entry `{entry}`: count {index} is {value}, which is not finite")]
    CountNotFinite {
        entry: String,
        /// Index over all experts, from 0.
        index: usize,
        value: f32,
    },
    /// A sum is not a sum of squares: infinite, NaN or negative.
    #[error("entry `{entry}`: sum {index} is {value}, expected a finite number of at least 0")]
    InvalidSum {
        entry: String,
        /// Index of the sum, over all experts.
        index: usize,
        value: f32,
    },
    /// Two matrices of different models: one entry has two sizes.
    #[error("entry `{entry}`: {found} {item} cannot be added to {expected}")]
    SizesDiffer {
        entry: String,
        item: &'static str,
        /// Number in the matrix that is added to.
        expected: usize,
        found: usize,
    },
    /// More entries, values or calls than the 32 bits of a format can store, or a sum beyond 64 bits.
    #[error("{item} {found} is out of range")]
    TooMany { item: &'static str, found: u64 },
}

//! Every way in which rows of a tensor cannot be read.

use crate::Dtype;

/// Why rows cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum ReadError {
    /// The type has no meaning as `f32`.
    #[error("tensor `{tensor}`: {dtype} cannot be read as f32")]
    Unreadable { tensor: String, dtype: Dtype },
    /// Rows past the end.
    #[error("tensor `{tensor}`: rows {first_row} to {end_row} are out of range for {n_rows} rows")]
    OutOfRange { tensor: String, first_row: u64, end_row: u64, n_rows: u64 },
    /// The buffer is not of the size of these rows.
    #[error("tensor `{tensor}`: expected a buffer of {expected} elements, found {found}")]
    Length { tensor: String, expected: u64, found: u64 },
    /// Byte range beyond the end of a weights file.
    #[error("`{file}`: bytes {begin} to {end} are out of range for a file of {len} bytes")]
    OutOfFile { file: String, begin: u64, end: u64, len: u64 },
    /// A tensor is in a weights file that is not there.
    #[error("weight file number {part} is not open")]
    PartMissing {
        /// Index into the weights files.
        part: usize,
    },
    /// Bytes of a weights file that is somewhere else could not be had.
    #[error("`{file}`: {cause}")]
    NotFetched {
        file: String,
        /// Cause reported by the fetching side.
        cause: String,
        advice: Option<&'static str>,
    },
    /// The run was cancelled while waiting for bytes.
    #[error("interrupted")]
    Interrupted,
    /// Codes or scales that make no number.
    #[error("tensor `{tensor}`: row {row}: expected {expected}, found {found}")]
    NoValue {
        /// The tensor of the file that holds it.
        tensor: String,
        /// The row of that tensor, over all outer dimensions.
        row: u64,
        expected: &'static str,
        found: String,
    },
}

impl ReadError {
    /// A [`ReadError::NoValue`] of the tensor `tensor`.
    pub(crate) fn no_value(
        tensor: &str,
        row: u64,
        expected: &'static str,
        found: impl ToString,
    ) -> ReadError {
        ReadError::NoValue { tensor: tensor.to_owned(), row, expected, found: found.to_string() }
    }
}

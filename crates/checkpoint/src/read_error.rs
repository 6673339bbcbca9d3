//! Every way in which rows of a tensor cannot be read.

use crate::Dtype;

/// Why rows cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The type has no meaning as `f32`.
    #[error("tensor `{tensor}`: {dtype} cannot be read as f32")]
    Unreadable {
        /// The tensor.
        tensor: String,
        /// Its type.
        dtype: Dtype,
    },
    /// Rows past the end.
    #[error("tensor `{tensor}`: rows {first_row} to {end_row} are out of range for {n_rows} rows")]
    OutOfRange {
        /// The tensor.
        tensor: String,
        /// First of the rows.
        first_row: u64,
        /// End of the rows.
        end_row: u64,
        /// Rows of the tensor.
        n_rows: u64,
    },
    /// The buffer is not of the size of these rows.
    #[error("tensor `{tensor}`: expected a buffer of {expected} elements, found {found}")]
    Length {
        /// The tensor.
        tensor: String,
        /// Elements of the rows.
        expected: u64,
        /// Elements of the buffer.
        found: u64,
    },
    /// Byte range beyond the end of a weights file.
    #[error("`{file}`: bytes {begin} to {end} are out of range for a file of {len} bytes")]
    OutOfFile {
        /// The file.
        file: String,
        /// First of the bytes.
        begin: u64,
        /// Their end.
        end: u64,
        /// Bytes of the file.
        len: u64,
    },
    /// A tensor is in a weights file that is not there.
    #[error("weight file number {part} is not open")]
    PartMissing {
        /// Index into the weights files.
        part: usize,
    },
    /// Bytes of a weights file that is somewhere else could not be had.
    #[error("`{file}`: {cause}")]
    NotFetched {
        /// The file.
        file: String,
        /// Cause reported by the fetching side.
        cause: String,
        /// Suggested remedy.
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
        /// Expected value.
        expected: &'static str,
        /// Found value.
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

use gguf_types::{Problem, Words};

use crate::Dtype;

/// Reason that rows cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, gguf_types::Fields)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum ReadError {
    /// The type cannot be converted to `f32`.
    #[error("tensor `{tensor}`: {dtype} cannot be read as f32")]
    #[fact(found = dtype)]
    Unreadable { tensor: String, dtype: Dtype },
    #[error("tensor `{tensor}`: rows {first_row} to {end_row} are out of range for {n_rows} rows")]
    OutOfRange { tensor: String, first_row: u64, end_row: u64, n_rows: u64 },
    /// The buffer has the wrong size.
    #[error("tensor `{tensor}`: expected a buffer of {expected} elements, found {found}")]
    Length { tensor: String, expected: u64, found: u64 },
    /// Byte range beyond the end of a weights file.
    #[error("`{file}`: bytes {begin} to {end} are out of range for a file of {len} bytes")]
    #[fact(expected = end, found = len)]
    OutOfFile { file: String, begin: u64, end: u64, len: u64 },
    /// The tensor is in a missing weights file.
    #[error("weight file number {part} is not open")]
    PartMissing { part: usize },
    /// Bytes of a weights file could not be fetched.
    #[error("`{file}`: {cause}")]
    NotFetched {
        file: String,
        /// Cause reported by the fetching side.
        cause: String,
        advice: Option<Words>,
    },
    /// The run was cancelled while waiting for bytes.
    #[error("interrupted")]
    Interrupted,
    /// Codes or scales that do not give a number.
    #[error("tensor `{tensor}`: row {row}: expected {expected}, found {found}")]
    NoValue {
        /// Tensor of the file that contains it.
        tensor: String,
        /// Index of the row, with all outer dimensions flattened.
        row: u64,
        expected: &'static str,
        found: String,
    },
}

impl Problem for ReadError {
    fn hint(&self) -> Option<Words> {
        match self {
            ReadError::NotFetched { advice, .. } => advice.clone(),
            _ => None,
        }
    }

    fn is_interruption(&self) -> bool {
        matches!(self, ReadError::Interrupted)
    }
}

impl ReadError {
    pub(crate) fn no_value(
        tensor: &str,
        row: u64,
        expected: &'static str,
        found: impl ToString,
    ) -> ReadError {
        ReadError::NoValue { tensor: tensor.to_owned(), row, expected, found: found.to_string() }
    }
}

//! One error type for all calls: the problem and its file.

use std::{
    fmt, io,
    path::{Path, PathBuf},
};

use crate::fields::Fields;

/// Why a call failed.
#[derive(Debug)]
pub struct Error {
    file: Option<PathBuf>,
    cause: Box<Cause>,
}

/// The problem that an error reports.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Cause {
    /// A conversion stopped.
    #[error(transparent)]
    Conversion(#[from] convert::Error),
    /// A GGUF file is wrong.
    #[error(transparent)]
    Container(#[from] gguf::Error),
    /// A file cannot be run, or not on this text.
    #[error(transparent)]
    Evaluation(#[from] eval::Error),
    /// Rows cannot be encoded or decoded.
    #[error(transparent)]
    Codec(#[from] quant::CodecError),
    /// Unknown type.
    #[error(transparent)]
    DType(#[from] tensor::DTypeError),
    /// An importance matrix cannot be read.
    #[error("importance matrix: {0}")]
    Imatrix(#[from] convert::imatrix::ImatrixError),
    /// The system refused.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A model of the Hub cannot be had.
    #[error(transparent)]
    Hub(Box<source::hub::HubError>),
    /// No type was named.
    #[error("missing file type")]
    NoType,
    /// A matrix whose rows do not have the length of their dtype's blocks, or weights that are not one for each column.
    #[error("{quantity}: expected {expected}, found {found}")]
    Shape {
        /// Name of the quantity with the wrong length, with its unit.
        quantity: &'static str,
        /// The length that was given.
        found: usize,
        /// The length that would be right.
        expected: usize,
    },
    /// The caller cancelled the run.
    #[error("interrupted")]
    Interrupted,
}

impl Error {
    /// A failure with this file or folder.
    pub(crate) fn at(file: &Path, cause: impl Into<Cause>) -> Error {
        Error { file: Some(file.to_owned()), cause: Box::new(cause.into()) }
    }

    /// The file or folder that it is about, as it was given; none where it is about no file.
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// The problem.
    pub fn cause(&self) -> &Cause {
        &self.cause
    }

    /// The facts of the message one by one.
    pub fn fields(&self) -> Fields {
        Fields::of(&self.cause)
    }

    /// Suggested remedy.
    pub fn hint(&self) -> Option<String> {
        match &*self.cause {
            Cause::Conversion(error) => error.hint(),
            Cause::Container(error) => error.hint().map(str::to_owned),
            Cause::Evaluation(eval::Error::Gguf(error)) => error.hint().map(str::to_owned),
            Cause::Evaluation(error) => error.hint().map(str::to_owned),
            Cause::Hub(error) => error.hint().map(str::to_owned),
            _ => None,
        }
    }

    /// True if the caller cancelled the run.
    pub fn is_interrupted(&self) -> bool {
        match &*self.cause {
            Cause::Interrupted
            | Cause::Conversion(
                convert::Error::Cancelled | convert::Error::Read(source::ReadError::Interrupted),
            ) => true,
            Cause::Hub(error) => matches!(**error, source::hub::HubError::Interrupted),
            _ => false,
        }
    }
}

impl<C: Into<Cause>> From<C> for Error {
    fn from(cause: C) -> Error {
        Error { file: None, cause: Box::new(cause.into()) }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The system's refusals carry their path.
        let has_path = matches!(
            &*self.cause,
            Cause::Container(gguf::Error::Io { .. })
                | Cause::Conversion(convert::Error::Gguf(gguf::Error::Io { .. }))
                | Cause::Evaluation(eval::Error::Gguf(gguf::Error::Io { .. }))
        );
        match &self.file {
            Some(file) if !has_path => write!(f, "{}: {}", file.display(), self.cause),
            _ => self.cause.fmt(f),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause.source()
    }
}

//! Problems that errors report.

use std::{fmt, io};

use gguf_types::{Fields as _, Problem, Words};

/// The problem that an error reports.
#[derive(Debug, thiserror::Error, gguf_types::Fields)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum Cause {
    /// A conversion failed.
    #[error(transparent)]
    Conversion(#[from] gguf_conversion::Error),
    /// An export failed.
    #[error(transparent)]
    Export(#[from] gguf_conversion::export::ExportError),
    /// A GGUF file is invalid.
    #[error(transparent)]
    Container(#[from] gguf_container::Error),
    /// A file cannot be run, or not on this text.
    #[error(transparent)]
    Evaluation(#[from] gguf_runtime::Error),
    /// A calibration failed.
    #[error(transparent)]
    Refinement(#[from] gguf_refinement::Error),
    /// Rows cannot be encoded or decoded.
    #[error(transparent)]
    Codec(#[from] gguf_quant::CodecError),
    /// Unknown type.
    #[error(transparent)]
    DType(#[from] gguf_types::DTypeError),
    /// An importance matrix cannot be read.
    #[error(transparent)]
    Imatrix(#[from] gguf_conversion::imatrix::ImatrixError),
    /// The operating system reported an error.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A model on the Hub is not available.
    #[error(transparent)]
    Hub(Box<gguf_checkpoint::hub::HubError>),
    /// No type was given.
    #[error("missing file type")]
    NoType,
    /// A matrix whose row length is not a multiple of the block size, or a wrong number of importance weights.
    #[error("{quantity}: expected {expected}, found {found}")]
    Shape {
        /// Name of the quantity with the wrong length, with its unit.
        quantity: &'static str,
        found: usize,
        expected: usize,
    },
    /// Data of a tensor that is longer or shorter than its shape and type require.
    #[error("tensor `{tensor}`: expected {expected} bytes of data, found {found}")]
    TensorBytes {
        tensor: String,
        /// The number of bytes by shape and type.
        expected: u64,
        /// The number of bytes of the data.
        found: u64,
    },
    /// The caller cancelled the run.
    #[error("interrupted")]
    Interrupted,
    /// A problem described only by its message.
    #[error("{0}")]
    Message(Words),
}

impl Problem for Cause {
    fn is_interruption(&self) -> bool {
        matches!(self, Cause::Interrupted) || self.inner().is_some_and(Problem::is_interruption)
    }

    fn names_its_file(&self) -> bool {
        matches!(self, Cause::Interrupted) || self.inner().is_some_and(Problem::names_its_file)
    }
}

impl From<gguf_checkpoint::hub::HubError> for Cause {
    fn from(error: gguf_checkpoint::hub::HubError) -> Cause {
        Cause::Hub(Box::new(error))
    }
}

/// Messages without an error: texts and [`Words`].
macro_rules! from_words {
    ($($words:ty),+ $(,)?) => {$(
        impl From<$words> for Cause {
            fn from(message: $words) -> Cause {
                Cause::Message(message.into())
            }
        }
    )+};
}

from_words!(Words, String, &str, fmt::Arguments<'_>);

/// Errors that are kept only as their message.
macro_rules! from_message {
    ($($error:ty),+ $(,)?) => {$(
        impl From<$error> for Cause {
            fn from(error: $error) -> Cause {
                Cause::Message(error.to_string().into())
            }
        }
    )+};
}

from_message!(
    serde_json::Error,
    gguf_imatrix::Error,
    gguf_conversion::recipes::RecipeError,
    gguf_refinement::budget::BudgetError,
    gguf_tokenizer::Error,
    gguf_runtime::chat::ChatError,
);

//! Problems that errors report.

use std::{fmt, io};

/// The problem that an error reports.
#[derive(Debug, thiserror::Error)]
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
    Message(String),
}

impl Cause {
    pub(crate) fn is_interruption(&self) -> bool {
        match self {
            Cause::Interrupted
            | Cause::Conversion(
                gguf_conversion::Error::Cancelled
                | gguf_conversion::Error::Gguf(gguf_container::Error::Interrupted)
                | gguf_conversion::Error::Read(gguf_checkpoint::ReadError::Interrupted)
                | gguf_conversion::Error::Source(gguf_checkpoint::Error::Read(
                    gguf_checkpoint::ReadError::Interrupted,
                )),
            )
            | Cause::Export(gguf_conversion::export::ExportError::Convert(
                gguf_conversion::Error::Cancelled,
            ))
            | Cause::Container(gguf_container::Error::Interrupted)
            | Cause::Refinement(gguf_refinement::Error::Interrupted) => true,
            Cause::Hub(error) => matches!(**error, gguf_checkpoint::hub::HubError::Interrupted),
            _ => false,
        }
    }

    /// True if the message of the cause names a file by itself, so that the path of the input is not added.
    pub(crate) fn names_its_file(&self) -> bool {
        match self {
            Cause::Container(error)
            | Cause::Evaluation(gguf_runtime::Error::Gguf(error))
            | Cause::Refinement(gguf_refinement::Error::Eval(gguf_runtime::Error::Gguf(error))) => {
                container_names_its_file(error)
            }
            Cause::Refinement(error) => {
                use gguf_refinement::Error as E;
                matches!(error, E::OtherMoments { .. } | E::BrokenMoments { .. } | E::Io { .. })
            }
            Cause::Conversion(error) => {
                use gguf_conversion::Error as E;
                match error {
                    E::Gguf(error) => container_names_its_file(error),
                    error => matches!(
                        error,
                        E::Merge { .. }
                            | E::Legacy(_)
                            | E::OtherPlan { .. }
                            | E::PartsDiffer { .. }
                            | E::NoParts { .. }
                            | E::PartsMissing { .. }
                            | E::PartGap { .. }
                            | E::PartDamaged { .. }
                            | E::OutputIsInput { .. }
                            | E::OutputInsideInput { .. }
                            | E::NoFolder { .. }
                            | E::NotAFolder { .. }
                            | E::UnknownPlaceholder { .. }
                            | E::OneNameForMany { .. }
                            | E::Cancelled
                    ),
                }
            }
            Cause::Interrupted => true,
            _ => false,
        }
    }
}

fn container_names_its_file(error: &gguf_container::Error) -> bool {
    use gguf_container::Error as E;
    matches!(
        error,
        E::Io { .. }
            | E::Exists { .. }
            | E::NotAFile { .. }
            | E::DeadLink { .. }
            | E::Changed { .. }
            | E::OpenFiles { .. }
            | E::UnfinishedEdit { .. }
            | E::Length { .. }
            | E::Shard { .. }
            | E::ShardMissing { .. }
            | E::ShardName { .. }
            | E::Interrupted
    )
}

impl From<gguf_checkpoint::hub::HubError> for Cause {
    fn from(error: gguf_checkpoint::hub::HubError) -> Cause {
        Cause::Hub(Box::new(error))
    }
}

impl From<String> for Cause {
    fn from(message: String) -> Cause {
        Cause::Message(message)
    }
}

impl From<&str> for Cause {
    fn from(message: &str) -> Cause {
        Cause::Message(message.to_owned())
    }
}

impl From<fmt::Arguments<'_>> for Cause {
    fn from(message: fmt::Arguments<'_>) -> Cause {
        Cause::Message(message.to_string())
    }
}

/// Errors that are kept only as their message.
macro_rules! from_message {
    ($($error:ty),+ $(,)?) => {$(
        impl From<$error> for Cause {
            fn from(error: $error) -> Cause {
                Cause::Message(error.to_string())
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

//! Why a GGUF file cannot be exported to a checkpoint.

use gguf_types::{Shape, counted, list_names};

/// Why a file cannot be exported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum ExportError {
    /// The file's architecture is not known.
    #[error("architecture `{found}` cannot be exported to a checkpoint folder; supported: {}", known.join(", "))]
    Architecture {
        found: String,
        /// Architectures that can be exported.
        known: Vec<&'static str>,
    },
    /// Files of the architecture cannot be exported.
    #[error("architecture `{found}` cannot be exported to a checkpoint folder: {reason}")]
    NotExportable { found: String, reason: &'static str },
    /// The config that the file's keys make cannot be converted.
    #[error("no checkpoint folder of this architecture corresponds to the file: {0}")]
    Conversion(crate::ArchError),
    /// A key that is missing, of another type, or out of range.
    #[error(transparent)]
    Key(#[from] gguf_container::KeyError),
    /// Something that the checkpoint's format cannot say.
    #[error("{subject} cannot be expressed in a Hugging Face config of this architecture")]
    NotExpressible {
        /// The item, with its numbers.
        subject: String,
    },
    /// Tensors that the architecture does not have.
    #[error("{} that a checkpoint cannot hold: {}", counted(names.len(), "tensor"), list_names(names))]
    UnusedTensors {
        /// Their names in the file.
        names: Vec<String>,
    },
    /// Tensors that the architecture needs.
    #[error("{}: {}", counted(names.len(), "missing tensor"), list_names(names))]
    MissingTensors {
        /// Their names as the file would spell them.
        names: Vec<String>,
    },
    /// A tensor whose shape contradicts the metadata.
    #[error("tensor `{name}`: expected {expected}, found shape {found}")]
    TensorShape {
        /// Its name in the file.
        name: String,
        /// Its shape, row length first.
        found: Shape,
        expected: String,
    },
    /// A tokenizer that cannot be written as Hugging Face files.
    #[error(transparent)]
    Tokenizer(#[from] gguf_tokenizer::export::ExportError),
}

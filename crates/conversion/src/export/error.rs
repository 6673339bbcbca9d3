//! Every way in which an export can fail.

use std::{io, path::PathBuf};

use gguf_types::DType;

use crate::Error;

/// Why a file cannot be exported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum ExportError {
    /// The file has no counterpart among checkpoints.
    #[error(transparent)]
    Layout(gguf_layout::export::ExportError),
    /// Reading, encoding or writing failed.
    #[error(transparent)]
    Convert(#[from] Error),
    /// Weights of a checkpoint are plain floats.
    #[error("weights cannot be exported as {dtype}; expected f32, f16 or bf16")]
    Dtype { dtype: DType },
    /// The existing output is kept.
    #[error("`{}` cannot be overwritten: {reason}", path.display())]
    NotReplaceable { path: PathBuf, reason: &'static str },
    /// The output would replace the folder that contains its input.
    #[error("the input is inside the output folder `{}`", path.display())]
    InputInside { path: PathBuf },
    /// The system refused.
    #[error("`{}`: {error}", path.display())]
    Io { path: PathBuf, error: io::Error },
}

impl ExportError {
    /// Advice for the user.
    pub fn hint(&self) -> Option<String> {
        match self {
            ExportError::Convert(error) => error.hint(),
            ExportError::InputInside { .. } => {
                Some("choose a folder that does not contain the file".to_owned())
            }
            ExportError::NotReplaceable { .. } => Some("choose another folder".to_owned()),
            _ => None,
        }
    }
}

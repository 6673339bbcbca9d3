use std::{io, path::PathBuf};

use gguf_types::DType;

use crate::Error;

/// Reason why a file cannot be exported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum ExportError {
    /// The file has no equivalent checkpoint.
    #[error(transparent)]
    Layout(gguf_layout::export::ExportError),
    #[error(transparent)]
    Convert(#[from] Error),
    /// Weights of a checkpoint must be plain floats.
    #[error("weights cannot be exported as {dtype}; expected f32, f16 or bf16")]
    Dtype { dtype: DType },
    #[error("`{}` cannot be overwritten: {reason}", path.display())]
    NotReplaceable { path: PathBuf, reason: &'static str },
    #[error("the input is inside the output folder `{}`", path.display())]
    InputInside { path: PathBuf },
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

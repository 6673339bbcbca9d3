use std::{io, path::PathBuf};

use gguf_types::{DType, Fields as _, Problem, Words, words};

use crate::Error;

/// Reason why a file cannot be exported.
#[derive(Debug, thiserror::Error, gguf_types::Fields)]
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

impl Problem for ExportError {
    fn hint(&self) -> Option<Words> {
        Some(match self {
            ExportError::Dtype { .. } => words!("use [-type] f32, f16 or bf16"),
            ExportError::InputInside { .. } => "choose a folder that does not contain the file".into(),
            ExportError::NotReplaceable { .. } => "choose another folder".into(),
            _ => return self.inner()?.hint(),
        })
    }

    fn names_its_file(&self) -> bool {
        false
    }
}

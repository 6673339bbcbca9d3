//! What can be wrong.

/// Why statistics could not be gathered or a matrix not be rounded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The model could not be run.
    #[error(transparent)]
    Eval(#[from] eval::Error),
}

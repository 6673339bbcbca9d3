//! Errors of the crate.

use std::{io, path::PathBuf};

use gguf_types::{Fields as _, Problem, Words};

/// A failure to collect statistics or to round a matrix.
#[derive(Debug, thiserror::Error, gguf_types::Fields)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum Error {
    /// The model could not be run.
    #[error(transparent)]
    Eval(#[from] gguf_runtime::Error),
    /// Rows could not be decoded.
    #[error(transparent)]
    Codec(#[from] gguf_quant::CodecError),
    /// A Hessian without tokens.
    #[error("the Hessian has no tokens")]
    NoTokens,
    /// All inputs of a matrix were zero.
    #[error("all inputs are zero, so no rounding is better than another")]
    InputsAreZero,
    /// A sum of products is infinite or NaN.
    #[error("the Hessian is not finite at ({row}, {column})")]
    MomentNotFinite { row: usize, column: usize },
    /// A sum of squares is negative.
    #[error("the sum of squares of column {column} is negative")]
    NegativeSquare { column: usize },
    #[error("shrinkage {shrinkage} must be from 0 to 1, and damping {damping} must not be negative")]
    RoundingOptions { shrinkage: f32, damping: f32 },
    /// The type's levels cannot be chosen individually.
    #[error("rounding {dtype} is not supported")]
    NotRefinable { dtype: gguf_types::DType },
    /// Lengths of weights, blocks and Hessian do not match.
    #[error("{quantity}: expected {expected}, found {found}")]
    Length {
        /// Name of the quantity with the wrong length, with its unit.
        quantity: &'static str,
        found: usize,
        expected: usize,
    },
    /// A file of statistics could not be read or written.
    #[error(transparent)]
    Gguf(#[from] gguf_container::Error),
    /// An input of a matrix is not finite.
    #[error("tensor `{tensor}`: input {value} in column {column}, at token {token} of chunk {chunk}")]
    NotFiniteInput {
        tensor: String,
        value: f32,
        column: usize,
        /// Chunk of the text, from 1.
        chunk: usize,
        /// Token in the chunk, from 1.
        token: usize,
    },
    /// A gradient at the output of a matrix is not finite.
    #[error("tensor `{tensor}`: output gradient {value} in row {row}, at token {token} of chunk {chunk}")]
    NotFiniteGradient {
        tensor: String,
        value: f32,
        row: usize,
        /// Chunk of the text, from 1.
        chunk: usize,
        /// Token in the chunk, from 1.
        token: usize,
    },
    /// The text is too short for the width of a model.
    #[error(
        "the calibration text is too short: inputs of {columns} columns need {needed} tokens, found {found}"
    )]
    TooFewTokens {
        /// Tokens that are not held out.
        found: usize,
        /// Columns of the widest input that sees every token.
        columns: usize,
        needed: usize,
    },
    /// An invalid line in a file of chats.
    #[error("line {line}: {problem}")]
    Chat { line: usize, problem: String },
    /// The statistics are of another model, text or setting.
    #[error("statistics in `{path}` belong to another {quantity}: expected {expected}, found {found}")]
    OtherMoments { path: PathBuf, quantity: &'static str, found: String, expected: String },
    #[error("statistics in `{path}` are invalid: {problem}")]
    BrokenMoments { path: PathBuf, problem: String },
    /// Statistics that cannot be combined.
    #[error("cannot add statistics: {problem}")]
    NotAddable { problem: String },
    #[error("cannot {action} {path}: {source}")]
    Io { action: &'static str, path: String, source: io::Error },
    #[error("interrupted")]
    Interrupted,
    #[error("tensor `{tensor}`: {error}")]
    At { tensor: String, error: Box<Error> },
    /// An error that another thread found first.
    #[error(transparent)]
    Shared(std::sync::Arc<Error>),
    /// The Hessian's width differs from the matrix's.
    #[error("tensor `{tensor}`: the Hessian has {found} columns, expected {expected}")]
    MomentsDiffer { tensor: String, expected: usize, found: usize },
}

impl Problem for Error {
    fn hint(&self) -> Option<Words> {
        match self {
            Error::Eval(error) => error.hint(),
            _ => None,
        }
    }

    fn is_interruption(&self) -> bool {
        matches!(self, Error::Interrupted) || self.inner().is_some_and(Problem::is_interruption)
    }

    fn names_its_file(&self) -> bool {
        match self {
            Error::Eval(error) => error.names_its_file(),
            error => {
                matches!(error, Error::OtherMoments { .. } | Error::BrokenMoments { .. } | Error::Io { .. })
            }
        }
    }
}

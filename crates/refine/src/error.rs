//! What can be wrong.

use std::{io, path::PathBuf};

/// Why statistics could not be gathered or a matrix not be rounded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The model could not be run.
    #[error(transparent)]
    Eval(#[from] eval::Error),
    /// Rows could not be decoded.
    #[error(transparent)]
    Codec(#[from] quant::CodecError),
    /// Moments of no tokens.
    #[error("the second moments are those of no tokens")]
    NoTokens,
    /// All inputs of a matrix were zero.
    #[error("all inputs were zero, so that no rounding is better than another")]
    InputsAreZero,
    /// A sum of products is infinite or NaN.
    #[error("the second moment of columns {row} and {column} is not finite")]
    MomentNotFinite {
        /// Its row.
        row: usize,
        /// Its column.
        column: usize,
    },
    /// A sum of squares is negative.
    #[error("the sum of squares of column {column} is negative")]
    NegativeSquare {
        /// Its column.
        column: usize,
    },
    /// Options that mean nothing.
    #[error(
        "shrinkage {shrinkage} and damping {damping}: the first must lie from 0 to 1, the second must not be negative"
    )]
    RoundingOptions {
        /// As given.
        shrinkage: f32,
        /// As given.
        damping: f32,
    },
    /// Levels of this type are not chosen one by one.
    #[error("levels of {dtype} cannot be rounded again")]
    NotRefinable {
        /// The type.
        dtype: tensor::DType,
    },
    /// Lengths of weights, blocks and moments do not agree.
    #[error("{what}: {found} given, {expected} expected")]
    Length {
        /// What has the wrong length, with its unit.
        what: &'static str,
        /// The length that was given.
        found: usize,
        /// The length that would be right.
        expected: usize,
    },
    /// A file of statistics could not be read or written.
    #[error(transparent)]
    Gguf(#[from] gguf::Error),
    /// What goes into a matrix is not finite.
    #[error(
        "tensor `{tensor}`: what goes into it is {value} in column {column}, at token {token} of window {window}"
    )]
    NotFiniteInput {
        /// The tensor.
        tensor: String,
        /// The value: NaN or an infinity.
        value: f32,
        /// Which column, from 0.
        column: usize,
        /// Which window of the text, from 1.
        window: usize,
        /// Which of its tokens, from 1.
        token: usize,
    },
    /// A gradient at what comes out of a matrix is not finite.
    #[error(
        "tensor `{tensor}`: the gradient of what comes out of it is {value} in row {row}, at token {token} of window {window}"
    )]
    NotFiniteGradient {
        /// The tensor.
        tensor: String,
        /// The value: NaN or an infinity.
        value: f32,
        /// Which of its rows, from 0.
        row: usize,
        /// Which window of the text, from 1.
        window: usize,
        /// Which of its tokens, from 1.
        token: usize,
    },
    /// A text with too few tokens for the width of a model.
    #[error("the text has {found} tokens to learn from, and an input of {columns} columns needs {needed}")]
    TooFewTokens {
        /// Tokens that are not held out.
        found: usize,
        /// Columns of the widest input that every token goes through.
        columns: usize,
        /// The fewest tokens that are taken.
        needed: usize,
    },
    /// A line of a file of chats that holds none.
    #[error("line {line}: {problem}")]
    Chat {
        /// Which one, from 1.
        line: usize,
        /// What is wrong with it.
        problem: String,
    },
    /// Statistics of another model, text or setting.
    #[error("the statistics in `{path}` are of another {what}: {found}, expected {expected}")]
    OtherMoments {
        /// The file.
        path: PathBuf,
        /// What differs.
        what: &'static str,
        /// Its value in the file.
        found: String,
        /// Its value now.
        expected: String,
    },
    /// A file of statistics that does not hold together.
    #[error("the statistics in `{path}` do not hold together: {problem}")]
    BrokenMoments {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// Statistics that cannot be added.
    #[error("the statistics cannot be added: {problem}")]
    NotAddable {
        /// Why.
        problem: String,
    },
    /// What the system says of a file.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// The file or folder.
        path: String,
        /// What the system says.
        source: io::Error,
    },
    /// The one who watches wanted it to end.
    #[error("interrupted")]
    Interrupted,
    /// A tensor cannot be rounded.
    #[error("tensor `{tensor}`: {error}")]
    At {
        /// The tensor.
        tensor: String,
        /// What is wrong.
        error: Box<Error>,
    },
    /// The same error as another thread's.
    #[error(transparent)]
    Shared(std::sync::Arc<Error>),
    /// Moments of a matrix of another width.
    #[error("tensor `{tensor}`: its second moments are those of {found} columns, it has {expected}")]
    MomentsDiffer {
        /// The tensor.
        tensor: String,
        /// Its columns.
        expected: usize,
        /// Those of the moments.
        found: usize,
    },
}

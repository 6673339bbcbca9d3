//! What can be wrong.

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
}

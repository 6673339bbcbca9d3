//! Every way in which a choice of dtypes can fail.

use gguf_types::DType;

/// Error in a recipe, a model's facts or an override.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum RecipeError {
    /// Neither a name nor a number of a recipe.
    #[error("unknown file type `{name}`")]
    UnknownRecipe { name: String },
    /// A key without which the model's facts are not known, or whose value cannot be what it should be.
    #[error(transparent)]
    Key(#[from] gguf_container::KeyError),
    /// An expert model's feed-forward tensor whose name has no layer.
    #[error("tensor `{name}`: the name does not start with `blk.N`, so its layer is unknown")]
    NoLayer { name: String },
    /// A layer that the model does not have.
    #[error("tensor `{name}`: layer {layer} is out of range for a model of {n_layer} layers")]
    LayerOutOfRange {
        name: String,
        /// The layer in its name.
        layer: i64,
        n_layer: u32,
    },
    /// A row that holds no whole blocks, in a dtype without a replacement.
    #[error(
        "tensor `{name}`: row length {row_elems} is not a multiple of {}, and {dtype} has no fallback type",
        dtype.block_elems()
    )]
    NoFallback {
        name: String,
        row_elems: u64,
        /// The dtype that was chosen.
        dtype: DType,
    },
    /// `PATTERN=DTYPE` without one of its parts.
    #[error("`{text}`: expected PATTERN=DTYPE: missing {missing}")]
    TensorTypeSyntax { text: String, missing: &'static str },
    /// Unknown dtype name.
    #[error("`{text}`: unknown tensor type `{name}`")]
    TensorTypeDType { text: String, name: String },
    /// A pattern that is no regular expression.
    #[error("`{text}`: {problem}")]
    TensorTypePattern {
        text: String,
        /// Message of the regex compiler, on one line.
        problem: String,
    },
}

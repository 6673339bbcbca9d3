//! Every way in which a choice of dtypes can fail.

use tensor::DType;

/// Error in a recipe, a model's facts or an override.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RecipeError {
    /// Neither a name nor a number of a recipe.
    #[error("`{name}` is not the name or number of a file type")]
    UnknownRecipe {
        /// The name as given.
        name: String,
    },
    /// A key without which the model's facts are not known, or whose value cannot be what it should be.
    #[error(transparent)]
    Key(#[from] gguf::KeyError),
    /// An expert model's feed-forward tensor whose name has no layer.
    #[error("tensor `{name}`: its layer is needed and its name does not start with `blk.` and a number")]
    NoLayer {
        /// The tensor.
        name: String,
    },
    /// A layer that the model does not have.
    #[error("tensor `{name}`: layer {layer} is not one of the {n_layer} of the model")]
    LayerOutOfRange {
        /// The tensor.
        name: String,
        /// The layer in its name.
        layer: i64,
        /// Layers of the model.
        n_layer: u32,
    },
    /// A row that holds no whole blocks, in a dtype without a replacement.
    #[error(
        "tensor `{name}`: row of {row_elems} elements is not a multiple of {} and `{dtype}` has no replacement",
        dtype.block_elems()
    )]
    NoFallback {
        /// The tensor.
        name: String,
        /// Elements in a row.
        row_elems: u64,
        /// The dtype that was chosen.
        dtype: DType,
    },
    /// `PATTERN=DTYPE` without one of its parts.
    #[error("`{text}` is not `PATTERN=DTYPE`: {missing} is missing")]
    TensorTypeSyntax {
        /// The text as given.
        text: String,
        /// The part.
        missing: &'static str,
    },
    /// Unknown dtype name.
    #[error("`{text}`: `{name}` is not the name of a ggml type")]
    TensorTypeDType {
        /// The text as given.
        text: String,
        /// The name.
        name: String,
    },
    /// A pattern that is no regular expression.
    #[error("`{text}`: {problem}")]
    TensorTypePattern {
        /// The text as given.
        text: String,
        /// Message of the regex compiler, on one line.
        problem: String,
    },
}

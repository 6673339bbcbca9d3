use gguf_types::DType;

/// Error in a recipe, a model's facts or an override.
#[derive(Debug, Clone, PartialEq, thiserror::Error, gguf_types::Fields)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum RecipeError {
    /// Neither the name nor the number of a recipe.
    #[error("unknown file type `{name}`")]
    #[fact(found = name)]
    UnknownRecipe { name: String },
    /// A key that the rules need is missing or invalid.
    #[error(transparent)]
    Key(#[from] gguf_container::KeyError),
    /// The name of an expert model's feed-forward tensor has no layer.
    #[error("tensor `{name}`: the name does not start with `blk.N`, so its layer is unknown")]
    #[fact(tensor = name)]
    NoLayer { name: String },
    /// A layer that the model does not have.
    #[error("tensor `{name}`: layer {layer} is out of range for a model of {n_layer} layers")]
    #[fact(tensor = name, expected = format_args!("a layer below {n_layer}"), found = layer)]
    LayerOutOfRange { name: String, layer: i64, n_layer: u32 },
    /// Rows do not fill blocks, and the dtype has no replacement.
    #[error(
        "tensor `{name}`: row length {row_elems} is not a multiple of {}, and {dtype} has no fallback type",
        dtype.block_elems()
    )]
    #[fact(tensor = name, found = row_elems)]
    NoFallback { name: String, row_elems: u64, dtype: DType },
    /// `PATTERN=DTYPE` without one of its parts.
    #[error("`{text}`: expected PATTERN=DTYPE: missing {missing}")]
    TensorTypeSyntax { text: String, missing: &'static str },
    #[error("`{text}`: unknown tensor type `{name}`")]
    TensorTypeDType { text: String, name: String },
    /// The pattern is not a valid regular expression.
    #[error("`{text}`: {problem}")]
    TensorTypePattern {
        text: String,
        /// Message of the regex compiler, on one line.
        problem: String,
    },
}

impl gguf_types::Problem for RecipeError {}

//! User options in addition to the recipe.

use gguf_types::DType;
use regex::Regex;

use super::{RecipeError, TensorFacts};

/// A dtype for all tensors whose name matches a pattern.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TensorType {
    /// Searched anywhere in the name.
    pub pattern: Regex,
    /// The dtype.
    pub dtype: DType,
}

impl PartialEq for TensorType {
    /// Patterns are equal if they are spelled alike.
    fn eq(&self, other: &TensorType) -> bool {
        self.pattern.as_str() == other.pattern.as_str() && self.dtype == other.dtype
    }
}

/// Improvements over the reference, all off by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Differences {
    /// Applies patterns also if the recipe's default is F32, F16 or BF16; the reference ignores them then.
    pub tensor_types_on_floats: bool,
    /// The dtypes of [`Overrides::output_type`] and [`Overrides::token_embedding_type`] fall back if the row
    /// length does not allow them; the reference aborts.
    pub checked_options: bool,
}

/// Everything besides the recipe that determines dtypes.
#[derive(Debug, Clone, Default)]
pub struct Overrides {
    /// Use the recipe's default for every tensor, without a mix.
    pub pure: bool,
    /// Copy all tensors.
    pub only_copy: bool,
    /// Keep the type of the output matrix.
    pub leave_output: bool,
    /// Dtype of the output matrix; in a mix, also of an embedding that doubles as one.
    pub output_type: Option<DType>,
    /// The dtype of token embeddings.
    pub token_embedding_type: Option<DType>,
    /// Patterns; the first match counts.
    pub tensor_types: Vec<TensorType>,
    /// True if there is an importance matrix, which some mixes take into account.
    pub has_imatrix: bool,
    /// Deliberate differences from the reference.
    pub differences: Differences,
}

impl TensorType {
    /// A rule for names that match `pattern`.
    pub fn new(pattern: Regex, dtype: DType) -> TensorType {
        TensorType { pattern, dtype }
    }

    /// A rule for the tensor with exactly this name.
    ///
    /// # Errors
    /// [`RecipeError::TensorTypePattern`] for a name that is too long.
    pub fn for_name(name: &str, dtype: DType) -> Result<TensorType, RecipeError> {
        let pattern = format!("^{}$", regex::escape(name));
        let pattern = Regex::new(&pattern).map_err(|problem| RecipeError::TensorTypePattern {
            text: name.to_owned(),
            problem: problem.to_string(),
        })?;
        Ok(TensorType { pattern, dtype })
    }

    /// Parses `PATTERN=DTYPE`. The pattern ends at the first `=` and is converted to lower case, like tensor
    /// names.
    ///
    /// Source: `parse_tensor_type` in `tools/quantize/quantize.cpp`. The reference uses ECMAScript patterns;
    /// look-around and back references are not supported here.
    ///
    /// # Errors
    /// [`RecipeError::TensorTypeSyntax`], [`RecipeError::TensorTypeDType`],
    /// [`RecipeError::TensorTypePattern`].
    pub fn parse(text: &str) -> Result<TensorType, RecipeError> {
        let syntax = |missing| RecipeError::TensorTypeSyntax { text: text.to_owned(), missing };
        // The first `=` ends the pattern. Tensor names do not contain one.
        let (pattern, dtype) = text.split_once('=').ok_or_else(|| syntax("`=`"))?;
        if pattern.is_empty() {
            return Err(syntax("the pattern"));
        }
        if dtype.is_empty() {
            return Err(syntax("the dtype"));
        }
        let name = dtype;
        let dtype = DType::from_name(name)
            .map_err(|_| RecipeError::TensorTypeDType { text: text.to_owned(), name: name.to_owned() })?;
        let pattern = Regex::new(&lower_case(pattern)).map_err(|problem| RecipeError::TensorTypePattern {
            text: text.to_owned(),
            // The compiler shows the position of the error on several lines.
            problem: problem.to_string().split_whitespace().collect::<Vec<_>>().join(" "),
        })?;
        Ok(TensorType { pattern, dtype })
    }

    /// Parses a list of `PATTERN=DTYPE` separated by white space, for example from a file.
    pub fn parse_list(text: &str) -> Result<Vec<TensorType>, RecipeError> {
        text.split_ascii_whitespace().map(TensorType::parse).collect()
    }
}

/// Lower case, except letters after a backslash: `\D` differs from `\d`, although the reference treats them
/// alike.
fn lower_case(pattern: &str) -> String {
    let mut escaped = false;
    let lower = |letter: char| {
        // An escaped backslash does not escape the next character.
        let keep = escaped;
        escaped = letter == '\\' && !keep;
        if keep { letter } else { letter.to_ascii_lowercase() }
    };
    pattern.chars().map(lower).collect()
}

impl Overrides {
    /// Indices of patterns that match no tensor: most likely misspelled.
    pub fn unmatched(&self, tensors: &[TensorFacts<'_>]) -> Vec<usize> {
        let found = |entry: &TensorType| tensors.iter().any(|tensor| entry.pattern.is_match(tensor.name));
        (0..self.tensor_types.len()).filter(|&i| !found(&self.tensor_types[i])).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensor_type_patterns_are_parsed() {
        let parsed = TensorType::parse_list(" ATTN_Q=Q8_0\n\tblk\\.\\D=q4_k").unwrap();
        assert_eq!((parsed[0].pattern.as_str(), parsed[0].dtype), ("attn_q", DType::Q8_0));
        assert_eq!((parsed[1].pattern.as_str(), parsed[1].dtype), ("blk\\.\\D", DType::Q4_K));
        for (text, part) in [("attn_q", "`=`"), ("=q8_0", "the pattern"), ("attn_q=", "the dtype")] {
            let error = TensorType::parse(text).unwrap_err();
            assert_eq!(error, RecipeError::TensorTypeSyntax { text: text.to_owned(), missing: part });
        }
        assert!(matches!(TensorType::parse("a=b=q8_0"), Err(RecipeError::TensorTypeDType { .. })));
        assert!(matches!(TensorType::parse("(=q8_0"), Err(RecipeError::TensorTypePattern { .. })));
    }

    #[test]
    fn unmatched_patterns_are_reported() {
        let overrides = Overrides {
            tensor_types: TensorType::parse_list("attn_q=q8_0 atn_k=q8_0").unwrap(),
            ..Overrides::default()
        };
        let shape = gguf_types::Shape::new(&[256, 1]).unwrap();
        let tensors = [TensorFacts { name: "blk.0.attn_q.weight", shape, dtype: DType::F32 }];
        assert_eq!(overrides.unmatched(&tensors), [1]);
    }
}

//! Fallback types for rows that do not fill blocks of the chosen dtype.

use gguf_types::DType;

use super::RecipeError;

/// A replacement of a dtype.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fallback {
    /// Dtype that was replaced.
    pub preferred: DType,
    /// Row length, not a multiple of a block of `preferred`.
    pub row_elems: u64,
}

/// The dtype that fits a row of `row_elems`: `preferred`, its replacement, or f16 if neither fits.
///
/// Source: `tensor_type_fallback` in `src/llama-quant.cpp`, llama-cpp-python 0.3.36.
pub(super) fn fit(
    name: &str,
    row_elems: u64,
    preferred: DType,
) -> Result<(DType, Option<Fallback>), RecipeError> {
    if row_elems.is_multiple_of(preferred.block_elems()) {
        return Ok((preferred, None));
    }
    // Types with blocks of 256 are replaced by types of about the same size with blocks of 32. Other types
    // have no replacement, and the next line checks whether they fit.
    let dtype = match preferred.smaller_block() {
        Some(dtype) => dtype,
        None if preferred.block_elems() <= 32 => preferred,
        None => return Err(RecipeError::NoFallback { name: name.to_owned(), row_elems, dtype: preferred }),
    };
    // f16 has blocks of one element, so it fits every row.
    let dtype = if row_elems.is_multiple_of(dtype.block_elems()) { dtype } else { DType::F16 };
    Ok((dtype, Some(Fallback { preferred, row_elems })))
}

#[cfg(test)]
mod tests {
    use gguf_types::DType::*;

    use super::*;

    #[test]
    fn fallback_types_match_reference() {
        for (row_elems, preferred, expected) in [
            (256, Q4_K, Q4_K),
            (64, Q4_K, Q5_0),
            (64, IQ4_XS, IQ4_NL),
            (32, Q2_0, Q4_0),
            (48, Q6_K, F16),
            (48, Q8_0, F16),
            (48, MXFP4, F16),
        ] {
            assert_eq!(fit("x", row_elems, preferred).unwrap().0, expected, "{row_elems} {preferred}");
        }
        assert!(matches!(fit("x", 64, Q1_0), Err(RecipeError::NoFallback { row_elems: 64, .. })));
    }
}

//! File types of the reference and their names.

use gguf_types::DType::{self, *};

use super::RecipeError;

/// A mix of dtypes as numbered in `general.file_type` (`enum llama_ftype`, llama.h).
///
/// Missing numbers were removed from the format (4 to 6, 33 to 35) or have no recipe in the reference (39,
/// NVFP4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
#[repr(u32)]
#[expect(
    missing_docs,
    non_camel_case_types,
    reason = "spelled as the reference spells them; RECIPES describes each"
)]
pub enum FileType {
    F32 = 0,
    F16 = 1,
    Q4_0 = 2,
    Q4_1 = 3,
    Q8_0 = 7,
    Q5_0 = 8,
    Q5_1 = 9,
    Q2_K = 10,
    Q3_K_S = 11,
    Q3_K_M = 12,
    Q3_K_L = 13,
    Q4_K_S = 14,
    Q4_K_M = 15,
    Q5_K_S = 16,
    Q5_K_M = 17,
    Q6_K = 18,
    IQ2_XXS = 19,
    IQ2_XS = 20,
    Q2_K_S = 21,
    IQ3_XS = 22,
    IQ3_XXS = 23,
    IQ1_S = 24,
    IQ4_NL = 25,
    IQ3_S = 26,
    IQ3_M = 27,
    IQ2_S = 28,
    IQ2_M = 29,
    IQ4_XS = 30,
    IQ1_M = 31,
    BF16 = 32,
    TQ1_0 = 36,
    TQ2_0 = 37,
    MXFP4_MOE = 38,
    Q1_0 = 40,
    Q2_0 = 41,
}

impl FileType {
    /// Number in `general.file_type`.
    pub const fn id(self) -> u32 {
        self as u32
    }
}

/// A named choice of dtypes for a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recipe {
    /// Name as spelled by the reference's tool.
    pub name: &'static str,
    /// Its mix.
    pub file_type: FileType,
    /// Dtype of every tensor that no rule names.
    pub default: DType,
    /// Short description.
    pub about: &'static str,
    /// True if some tensor of an ordinary transformer cannot be encoded without an importance matrix.
    /// [`super::Assignment::requires_imatrix`] applies to one tensor.
    pub needs_imatrix: bool,
    /// Name of the recipe that this is an alias of.
    pub alias_of: Option<&'static str>,
    /// True if tensors are copied and the input's file type stays.
    pub copy: bool,
}

const fn row(name: &'static str, file_type: FileType, default: DType, about: &'static str) -> Recipe {
    Recipe { name, file_type, default, about, needs_imatrix: false, alias_of: None, copy: false }
}

const fn weighted(name: &'static str, file_type: FileType, default: DType, about: &'static str) -> Recipe {
    Recipe { needs_imatrix: true, ..row(name, file_type, default, about) }
}

const fn alias(name: &'static str, file_type: FileType, default: DType, of: &'static str) -> Recipe {
    Recipe { alias_of: Some(of), ..row(name, file_type, default, "medium mix") }
}

/// Every recipe that the reference can write, in its order.
///
/// Source: `QUANT_OPTIONS` in `tools/quantize/quantize.cpp` and
/// `llama_ftype_get_default_type` in `src/llama-quant.cpp`, llama.cpp as vendored in
/// llama-cpp-python 0.3.36.
pub const RECIPES: &[Recipe] = &[
    row("Q1_0", FileType::Q1_0, Q1_0, "1 bit, one scale per 128 weights"),
    row("Q2_0", FileType::Q2_0, Q2_0, "2 bits, one scale per 64 weights"),
    row("Q4_0", FileType::Q4_0, Q4_0, "4 bits, one scale per 32 weights"),
    row("Q4_1", FileType::Q4_1, Q4_1, "4 bits, scale and minimum per 32"),
    row("MXFP4_MOE", FileType::MXFP4_MOE, MXFP4, "experts mxfp4, the rest q8_0"),
    row("Q5_0", FileType::Q5_0, Q5_0, "5 bits, one scale per 32 weights"),
    row("Q5_1", FileType::Q5_1, Q5_1, "5 bits, scale and minimum per 32"),
    weighted("IQ2_XXS", FileType::IQ2_XXS, IQ2_XXS, "2-bit codebook, smallest"),
    weighted("IQ2_XS", FileType::IQ2_XS, IQ2_XS, "2-bit codebook, small"),
    weighted("IQ2_S", FileType::IQ2_S, IQ2_XS, "2-bit codebook, medium"),
    weighted("IQ2_M", FileType::IQ2_M, IQ2_S, "2-bit codebook, large"),
    weighted("IQ1_S", FileType::IQ1_S, IQ1_S, "1-bit codebook, small"),
    weighted("IQ1_M", FileType::IQ1_M, IQ1_M, "1-bit codebook, medium"),
    row("TQ1_0", FileType::TQ1_0, TQ1_0, "for ternary models"),
    row("TQ2_0", FileType::TQ2_0, TQ2_0, "for ternary models, faster"),
    row("Q2_K", FileType::Q2_K, Q2_K, "2-bit mix, medium"),
    weighted("Q2_K_S", FileType::Q2_K_S, Q2_K, "2-bit mix, small"),
    weighted("IQ3_XXS", FileType::IQ3_XXS, IQ3_XXS, "3-bit codebook, smallest"),
    row("IQ3_S", FileType::IQ3_S, IQ3_S, "3-bit codebook, medium"),
    row("IQ3_M", FileType::IQ3_M, IQ3_S, "3-bit codebook, large"),
    alias("Q3_K", FileType::Q3_K_M, Q3_K, "Q3_K_M"),
    weighted("IQ3_XS", FileType::IQ3_XS, IQ3_S, "3-bit codebook, small"),
    row("Q3_K_S", FileType::Q3_K_S, Q3_K, "3-bit mix, small"),
    row("Q3_K_M", FileType::Q3_K_M, Q3_K, "3-bit mix, medium"),
    row("Q3_K_L", FileType::Q3_K_L, Q3_K, "3-bit mix, large"),
    row("IQ4_NL", FileType::IQ4_NL, IQ4_NL, "4-bit non-linear, one scale per 32"),
    row("IQ4_XS", FileType::IQ4_XS, IQ4_XS, "4-bit non-linear, small"),
    alias("Q4_K", FileType::Q4_K_M, Q4_K, "Q4_K_M"),
    row("Q4_K_S", FileType::Q4_K_S, Q4_K, "4-bit mix, small"),
    row("Q4_K_M", FileType::Q4_K_M, Q4_K, "4-bit mix, medium"),
    alias("Q5_K", FileType::Q5_K_M, Q5_K, "Q5_K_M"),
    row("Q5_K_S", FileType::Q5_K_S, Q5_K, "5-bit mix, small"),
    row("Q5_K_M", FileType::Q5_K_M, Q5_K, "5-bit mix, medium"),
    row("Q6_K", FileType::Q6_K, Q6_K, "6 bits"),
    row("Q8_0", FileType::Q8_0, Q8_0, "8 bits, one scale per 32 weights"),
    row("F16", FileType::F16, F16, "half precision"),
    row("BF16", FileType::BF16, BF16, "bfloat16"),
    row("F32", FileType::F32, F32, "single precision"),
    Recipe { copy: true, ..row("COPY", FileType::F32, F32, "copies every tensor") },
];

impl Recipe {
    /// Its name, or that of the recipe that it is an alias of.
    pub fn canonical_name(&self) -> &'static str {
        self.alias_of.unwrap_or(self.name)
    }

    /// The recipe with this name, in any case, or this file type number. Hyphens and underscores may differ or be missing, and usual
    /// words stand for a type: `4bit`, `q4`, `int4` and `small` for Q4_K_M, `fp16` for F16.
    ///
    /// The reference also accepts a number with trailing text (`2nd` is Q4_0).
    ///
    /// # Errors
    /// [`RecipeError::UnknownRecipe`].
    pub fn from_name(name: &str) -> Result<&'static Recipe, RecipeError> {
        if let Some(recipe) = RECIPES.iter().find(|recipe| recipe.name.eq_ignore_ascii_case(name)) {
            return Ok(recipe);
        }
        if let Some(recipe) = usual_type(name) {
            return Ok(recipe);
        }
        // A number never selects an alias.
        let number = name.parse::<u32>().ok();
        RECIPES
            .iter()
            .find(|recipe| Some(recipe.file_type.id()) == number && recipe.alias_of.is_none())
            .ok_or_else(|| RecipeError::UnknownRecipe { name: name.to_owned() })
    }
}

/// Words for types in other programs, without hyphens and underscores.
const WORDS: &[(&str, &[&str])] = &[
    ("Q2_K", &["q2", "int2", "2bit"]),
    ("Q3_K_M", &["q3", "int3", "3bit"]),
    ("Q4_K_M", &["q4", "int4", "4bit", "small"]),
    ("Q5_K_M", &["q5", "int5", "5bit"]),
    ("Q6_K", &["q6", "int6", "6bit"]),
    ("Q8_0", &["q8", "int8", "8bit"]),
    ("F16", &["fp16", "float16", "half"]),
    ("BF16", &["bfloat16"]),
    ("F32", &["fp32", "float32"]),
];

/// The type of a word, or of a name with other separators.
fn usual_type(name: &str) -> Option<&'static Recipe> {
    let plain = |name: &str| name.replace(['-', '_'], "").to_ascii_lowercase();
    let word = plain(name);
    let known = WORDS.iter().find(|(_, words)| words.contains(&word.as_str())).map(|(name, _)| *name);
    let is_named = |recipe: &&Recipe| match known {
        Some(known) => recipe.name == known,
        None => plain(recipe.name) == word,
    };
    RECIPES.iter().find(is_named)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_words_name_a_type() {
        let name = |word: &str| Recipe::from_name(word).map(|recipe| recipe.name);
        for (known, words) in WORDS {
            assert!(words.iter().all(|word| name(word) == Ok(*known)), "{known}");
        }
        assert_eq!(
            ["4-bit", "Q4-K-M", "q40", "half"].map(|word| name(word).unwrap()),
            ["Q4_K_M", "Q4_K_M", "Q4_0", "F16"]
        );
        assert!(["q7", "i8", "4", "-", "iq4"].iter().all(|word| name(word) != Ok("Q4_K_M")));
    }

    #[test]
    fn names_are_unique_and_found_in_any_case() {
        for (i, recipe) in RECIPES.iter().enumerate() {
            assert_eq!(Recipe::from_name(&recipe.name.to_lowercase()), Ok(recipe));
            assert!(RECIPES[..i].iter().all(|other| other.name != recipe.name), "{}", recipe.name);
        }
    }

    #[test]
    fn file_type_number_finds_main_recipe() {
        for recipe in RECIPES.iter().filter(|recipe| recipe.alias_of.is_none() && !recipe.copy) {
            assert_eq!(Recipe::from_name(&recipe.file_type.id().to_string()), Ok(recipe));
        }
        for gone in ["4", "5", "6", "33", "34", "35", "39", "42", "2nd", "-1", ""] {
            assert_eq!(Recipe::from_name(gone), Err(RecipeError::UnknownRecipe { name: gone.to_owned() }));
        }
    }

    #[test]
    fn file_types_of_dtypes_are_those_of_recipes() {
        // 39 is NVFP4, which has a number and no recipe.
        for dtype in DType::ALL.iter().filter(|dtype| !matches!(dtype.file_type(), 0 | 39)) {
            let recipe = Recipe::from_name(&dtype.file_type().to_string()).unwrap();
            // The mix called IQ2_S is iq2_xs except for a few tensors.
            let expected = if *dtype == IQ2_S { IQ2_XS } else { *dtype };
            assert_eq!(recipe.default, expected, "{dtype}");
        }
    }

    #[test]
    fn aliases_point_at_their_recipe() {
        for recipe in RECIPES {
            if let Some(of) = recipe.alias_of {
                let target = Recipe::from_name(of).unwrap();
                assert_eq!((target.file_type, target.default), (recipe.file_type, recipe.default));
            }
        }
    }
}

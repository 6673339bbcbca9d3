//! Which dtype each tensor of a model gets.
//!
//! A recipe (Q4_K_M, IQ3_XS, ...) is a default dtype and a mix of rules that look at a tensor's
//! role, its place among the layers, its row length and a few facts of the model. All of it is
//! the reference's: [`RECIPES`] is its list of file types, `rules.rs` its mixes as data,
//! `allow.rs` the tensors that it never touches, `fallback.rs` what it takes where a row holds
//! no whole blocks. Nothing here reads a weight or opens a file.
//!
//! Source: `src/llama-quant.cpp` of llama.cpp as vendored in llama-cpp-python 0.3.36, held to
//! by the reference's own snapshots in `golden/recipes/`. Where it has a habit that hurts, the
//! better way is a switch in [`Differences`], off unless asked for.

mod allow;
mod category;
mod choose;
mod error;
mod fallback;
mod metadata;
mod model;
mod options;
mod order;
mod reason;
mod rules;
mod table;

use tensor::{DType, Shape};

use self::choose::Chooser;
pub use self::{
    allow::{Kept, kept},
    category::Category,
    error::RecipeError,
    fallback::Fallback,
    metadata::{GUESSED, QUANTIZATION_VERSION, ZeroBytes, quantized_metadata, stored_file_type},
    model::{ModelFacts, is_70b},
    options::{Differences, Overrides, TensorType},
    order::{compare_names, layer_of, reference_order},
    reason::Reason,
    rules::When,
    table::{FileType, RECIPES, Recipe},
};

/// What recipes need to know of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TensorFacts<'a> {
    /// The name in GGUF.
    pub name: &'a str,
    /// The shape, row length first.
    pub shape: Shape,
    /// The dtype that it has now.
    pub dtype: DType,
}

/// What becomes of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Assignment {
    /// The dtype that it gets.
    pub dtype: DType,
    /// What decided.
    pub reason: Reason,
    /// The dtype that its row length did not allow, if that happened.
    pub fallback: Option<Fallback>,
    /// Whether it cannot be encoded without an importance matrix. The reference refuses such a
    /// tensor at once when it has no importance matrix at all, even one that already is of
    /// this dtype; when it has one, it refuses a tensor that the matrix says nothing about,
    /// unless the tensor already is of this dtype.
    pub requires_imatrix: bool,
}

/// Chooses a dtype for every tensor. `tensors` must come in the order in which they are
/// processed ([`reference_order`] unless shards are kept), since the mixes count.
///
/// Dtypes that options ask for are not held against row lengths where the reference does not
/// (see [`Differences`]), so a caller still has to check sizes.
///
/// Source: `llama_tensor_get_type` and the first loop of `llama_model_quantize_impl`.
///
/// # Errors
/// [`RecipeError::NoLayer`], [`RecipeError::LayerOutOfRange`], [`RecipeError::NoFallback`].
pub fn assign(
    recipe: &Recipe,
    model: &ModelFacts,
    tensors: &[TensorFacts<'_>],
    overrides: &Overrides,
) -> Result<Vec<Assignment>, RecipeError> {
    let mut chooser = Chooser::new(recipe, model, overrides, tensors);
    tensors.iter().map(|tensor| assign_one(recipe, model, tensor, overrides, &mut chooser)).collect()
}

fn assign_one(
    recipe: &Recipe,
    model: &ModelFacts,
    tensor: &TensorFacts<'_>,
    overrides: &Overrides,
    chooser: &mut Chooser<'_>,
) -> Result<Assignment, RecipeError> {
    // COPY copies even where a caller forgets to say so twice.
    let only_copy = Overrides { only_copy: true, ..Overrides::default() };
    let allowed_by = if recipe.copy { &only_copy } else { overrides };
    if let Some(kept) = kept(&model.architecture, tensor.name, &tensor.shape, allowed_by) {
        let reason = Reason::Kept(kept);
        return Ok(Assignment { dtype: tensor.dtype, reason, fallback: None, requires_imatrix: false });
    }
    let (wanted, reason, checked) = wanted(recipe, tensor, overrides, chooser)?;
    let (dtype, fallback) =
        if checked { fallback::fit(tensor.name, tensor.shape.row_elems(), wanted)? } else { (wanted, None) };
    let requires_imatrix = requires_imatrix(tensor.name, dtype, recipe.file_type);
    Ok(Assignment { dtype, reason, fallback, requires_imatrix })
}

/// The dtype before the row length is looked at, and whether it is to be.
fn wanted(
    recipe: &Recipe,
    tensor: &TensorFacts<'_>,
    overrides: &Overrides,
    chooser: &mut Chooser<'_>,
) -> Result<(DType, Reason, bool), RecipeError> {
    let category = Category::of(tensor.name);
    let pattern = overrides.tensor_types.iter().position(|entry| entry.pattern.is_match(tensor.name));
    let options_checked = overrides.differences.checked_options;
    if let (Category::TokenEmbd, Some(dtype)) = (category, overrides.token_embedding_type) {
        // The embedding of each layer is a table of its own: a pattern that names it wins.
        if tensor.name != "per_layer_token_embd.weight" || pattern.is_none() {
            return Ok((dtype, Reason::TokenEmbeddingOption, options_checked));
        }
    }
    if let (Category::Output, Some(dtype)) = (category, overrides.output_type) {
        return Ok((dtype, Reason::OutputOption, options_checked));
    }
    let quantized = recipe.default.is_quantized();
    match pattern {
        Some(index) if quantized || overrides.differences.tensor_types_on_floats => {
            Ok((overrides.tensor_types[index].dtype, Reason::TensorType(index), true))
        }
        _ if !quantized => Ok((recipe.default, Reason::Default, false)),
        _ if overrides.pure => Ok((recipe.default, Reason::Pure, true)),
        _ => chooser.choose(tensor).map(|(dtype, reason)| (dtype, reason, true)),
    }
}

/// Whether a tensor of this name cannot be encoded to `dtype` without an importance matrix.
///
/// Source: `tensor_requires_imatrix` in `src/llama-quant.cpp`.
pub fn requires_imatrix(name: &str, dtype: DType, file_type: FileType) -> bool {
    let ends = matches!(Category::of(name), Category::TokenEmbd | Category::Output);
    !ends && (dtype.needs_imatrix() || (dtype == DType::Q2_K && file_type == FileType::Q2_K_S))
}

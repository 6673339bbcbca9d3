//! Chooses a dtype for every tensor: by options first, then rules, then row length.

use gguf_types::DType;

use super::{
    Assignment, Category, ModelFacts, Overrides, Reason, Recipe, RecipeError, TensorFacts, choose::Chooser,
    diffusion, fallback, keep_reason, requires_imatrix,
};

/// Chooses a dtype for every tensor. `tensors` must be in processing order
/// ([`reference_order`](super::reference_order) unless shards are kept), since the mixes count.
///
/// Dtypes requested by options are not checked against row lengths if the reference does not (see
/// [`Differences`](super::Differences)), so the caller has to check sizes.
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
    if let Some(file) = &model.diffusion {
        return Ok(diffusion::assign(recipe, file, tensors, overrides));
    }
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
    // COPY implies `only_copy`, even if the caller does not set it.
    let only_copy = Overrides { only_copy: true, ..Overrides::default() };
    let allowed_by = if recipe.copy { &only_copy } else { overrides };
    // Tensors that no recipe changes are decided before every option, so that no pattern can quantize a norm.
    if let Some(reason) = keep_reason(model.quantization, tensor.name, &tensor.shape, allowed_by) {
        let reason = Reason::Kept(reason);
        return Ok(Assignment { dtype: tensor.dtype, reason, fallback: None, requires_imatrix: false });
    }
    let (preferred, reason, checked) = preferred(recipe, tensor, overrides, chooser)?;
    // The rules ignore row lengths; rows must still fill the blocks of the chosen type.
    let (dtype, fallback) = if checked {
        fallback::fit(tensor.name, tensor.shape.row_elems(), preferred)?
    } else {
        (preferred, None)
    };
    let requires_imatrix = requires_imatrix(tensor.name, dtype, recipe.file_type);
    Ok(Assignment { dtype, reason, fallback, requires_imatrix })
}

/// The dtype before checking the row length, and whether to check it.
fn preferred(
    recipe: &Recipe,
    tensor: &TensorFacts<'_>,
    overrides: &Overrides,
    chooser: &mut Chooser<'_>,
) -> Result<(DType, Reason, bool), RecipeError> {
    let category = Category::of(tensor.name);
    let pattern = overrides.tensor_types.iter().position(|entry| entry.pattern.is_match(tensor.name));
    let options_checked = overrides.differences.checked_options;
    if let (Category::TokenEmbd, Some(dtype)) = (category, overrides.token_embedding_type) {
        // The per-layer embedding is a separate table: a pattern that names it wins.
        if tensor.name != "per_layer_token_embd.weight" || pattern.is_none() {
            return Ok((dtype, Reason::TokenEmbeddingOption, options_checked));
        }
    }
    if let (Category::Output, Some(dtype)) = (category, overrides.output_type) {
        return Ok((dtype, Reason::OutputOption, options_checked));
    }
    // Order matters from here on: options by role precede patterns, patterns precede rules. Like in the
    // reference, the rules' counters advance only for tensors that reach `choose`.
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

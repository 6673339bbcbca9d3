//! From a GGUF file to planned files of other types: what `llama-quantize` does.
//!
//! Source: `llama_model_quantize_impl` in `src/llama-quant.cpp`, llama.cpp as vendored in
//! llama-cpp-python 0.3.36. Weights go from the stored type straight to the target through f32.

use gguf::{Endian, Model, Plan, TensorInfo};

use crate::{
    Choice, Error, PlannedFile, Target, TensorRows, Weights, Work,
    imatrix::{Imatrix, provenance},
    plan::without_trailing_ones,
    recipes::{
        ModelFacts, Overrides, Recipe, TensorFacts, ZeroBytes, assign, quantized_metadata, reference_order,
        set_key, stored_file_type,
    },
};

/// An importance matrix and the path that it was read from, as the user gave it.
#[derive(Debug, Clone, Copy)]
pub struct Importance<'a> {
    /// The matrix, filters applied.
    pub imatrix: &'a Imatrix,
    /// Its path, for the keys that tell where weights come from.
    pub path: &'a str,
}

fn facts(tensor: &TensorInfo) -> TensorFacts<'_> {
    TensorFacts { name: &tensor.name, shape: tensor.shape, dtype: tensor.dtype }
}

/// Plans the file of one recipe. [`Choice::tensor`] is an index into [`Model::tensors`].
///
/// # Errors
/// [`Error::Recipe`], [`Error::Gguf`].
pub fn plan_quantized(
    model: &Model,
    recipe: &'static Recipe,
    overrides: &Overrides,
    importance: Option<Importance<'_>>,
) -> Result<PlannedFile, Error> {
    let tensors: Vec<TensorFacts<'_>> = model.tensors().map(|(_, tensor)| facts(tensor)).collect();
    let order = reference_order(&tensors.iter().map(|tensor| tensor.name).collect::<Vec<_>>());
    let ordered: Vec<TensorFacts<'_>> = order.iter().map(|&index| tensors[index]).collect();
    let model_facts = match ModelFacts::from_metadata(model.metadata()) {
        Ok(facts) => facts,
        // Copying asks nothing of a model.
        Err(_) if recipe.copy => ModelFacts::default(),
        Err(error) => return Err(Error::Recipe(error)),
    };
    let assignments = assign(recipe, &model_facts, &ordered, overrides).map_err(Error::Recipe)?;

    let file_type =
        if recipe.copy { stored_file_type(model.metadata(), &tensors) } else { recipe.file_type.id() };
    let mut metadata = quantized_metadata(model.metadata(), file_type, ZeroBytes::EndText);
    if let Some(Importance { imatrix, path }) = importance {
        for (key, value) in provenance(imatrix, path, false) {
            set_key(&mut metadata, &key, value);
        }
    }
    let choices: Vec<Choice> = order
        .iter()
        .zip(&assignments)
        .map(|(&tensor, made)| Choice {
            tensor,
            dtype: made.dtype,
            reason: made.reason,
            fallback: made.fallback,
            requires_imatrix: made.requires_imatrix,
        })
        .collect();
    let planned = ordered
        .iter()
        .zip(&choices)
        .map(|(facts, choice)| {
            let shape = without_trailing_ones(facts.shape)
                .map_err(|source| Error::Shape { tensor: facts.name.to_owned(), source })?;
            Ok((facts.name.to_owned(), shape, choice.dtype))
        })
        .collect::<Result<Vec<_>, Error>>()?;
    let alignment = model.first().alignment();
    let plan = Plan::new(&metadata, planned, Endian::Little, alignment).map_err(Error::Gguf)?;
    Ok(PlannedFile { recipe, plan, choices })
}

/// Checks that everything that a plan asks for can be done, before anything is.
///
/// # Errors
/// [`Error::NeedsImatrix`], [`Error::NotInImatrix`], [`Error::Requantize`], [`Error::Encode`],
/// [`Error::Imatrix`].
pub fn check_quantized(
    model: &Model,
    file: &PlannedFile,
    importance: Option<Importance<'_>>,
    allow_requantize: bool,
) -> Result<(), Error> {
    let tensors: Vec<&TensorInfo> = model.tensors().map(|(_, tensor)| tensor).collect();
    for choice in &file.choices {
        let (tensor, dtype) = (tensors[choice.tensor], choice.dtype);
        let name = || tensor.name.clone();
        if choice.requires_imatrix && importance.is_none() {
            return Err(Error::NeedsImatrix { tensor: name(), dtype, recipe: file.recipe.name });
        }
        if tensor.dtype == dtype {
            continue;
        }
        if let Some(Importance { imatrix, .. }) = importance {
            let weights = imatrix.weights(&tensor.name, &facts(tensor)).map_err(Error::Imatrix)?;
            if choice.requires_imatrix && weights.is_none() {
                return Err(Error::NotInImatrix { tensor: name(), dtype });
            }
        }
        if tensor.dtype.is_quantized() && !allow_requantize {
            return Err(Error::Requantize { tensor: name(), from: tensor.dtype, to: dtype });
        }
        if quant::codec(dtype).is_none_or(|codec| codec.encode.is_none()) {
            let error = quant::EncodeError::NoCodec { dtype, verb: "encode" };
            return Err(Error::Encode { tensor: name(), error });
        }
    }
    Ok(())
}

/// The work of writing `files`, all planned from this model: one entry for each tensor in the
/// model's order, with one target for each file.
///
/// # Errors
/// [`Error::Imatrix`].
pub fn quantize_works<'a>(
    model: &'a Model,
    files: &[PlannedFile],
    importance: Option<Importance<'a>>,
) -> Result<Vec<Work<'a>>, Error> {
    let mut works = model
        .tensors()
        .map(|(file, tensor)| {
            let values = match importance {
                Some(Importance { imatrix, .. }) => {
                    imatrix.weights(&tensor.name, &facts(tensor)).map_err(Error::Imatrix)?
                }
                None => None,
            };
            let rows_per_expert = tensor.shape.dim(1).max(1);
            let weights = values.map(|values| Weights { values, rows_per_expert });
            let rows = TensorRows::Gguf { file, tensor };
            Ok(Work { name: tensor.name.clone(), rows, weights, via: None, targets: Vec::new() })
        })
        .collect::<Result<Vec<Work<'_>>, Error>>()?;
    for (output, file) in files.iter().enumerate() {
        for (choice, planned) in file.choices.iter().zip(file.plan.tensors()) {
            let target = Target { output, dtype: choice.dtype, offset: planned.offset };
            works[choice.tensor].targets.push(target);
        }
    }
    Ok(works)
}

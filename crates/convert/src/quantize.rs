//! From a GGUF file to planned files of other types: what `llama-quantize` does.
//!
//! Source: `llama_model_quantize_impl` in `src/llama-quant.cpp`, llama.cpp as vendored in
//! llama-cpp-python 0.3.36. Weights go from the stored type straight to the target through f32.

use gguf::Model;

use crate::{
    Error, PlannedFile, Request, Shards, TensorRows, Work,
    files::{self, Base},
    recipes::{Recipe, TensorFacts, ZeroBytes, quantized_metadata, reference_order, stored_file_type},
};

/// What recipes need to know of a model's tensors, in the order of [`Model::tensors`].
pub fn model_tensors(model: &Model) -> Vec<TensorFacts<'_>> {
    let tensors = model.tensors().map(|(_, tensor)| tensor);
    tensors.map(|it| TensorFacts { name: &it.name, shape: it.shape, dtype: it.dtype }).collect()
}

/// Plans the file of one recipe, or its shards. [`crate::Choice::tensor`] is an index into
/// [`Model::tensors`].
///
/// # Errors
/// [`Error::Recipe`], [`Error::Gguf`], and what is wrong with the request.
pub fn plan_quantized(
    model: &Model,
    recipe: &'static Recipe,
    request: &Request<'_>,
) -> Result<Vec<PlannedFile>, Error> {
    let tensors = model_tensors(model);
    let shards = model.shards().iter().enumerate();
    let shard_of: Vec<usize> =
        shards.flat_map(|(shard, (_, file))| file.tensors().iter().map(move |_| shard)).collect();
    let order = if request.shards == Shards::Kept {
        let offsets: Vec<u64> = model.tensors().map(|(_, tensor)| tensor.offset).collect();
        let mut order: Vec<usize> = (0..tensors.len()).collect();
        order.sort_by_key(|&index| (shard_of[index], offsets[index]));
        order
    } else {
        reference_order(&tensors.iter().map(|tensor| tensor.name).collect::<Vec<_>>())
    };
    let file_type =
        if recipe.copy { stored_file_type(model.metadata(), &tensors) } else { recipe.file_type.id() };
    let metadata = quantized_metadata(model.metadata(), file_type, ZeroBytes::EndText);
    let base =
        Base { recipe, metadata, tensors: &tensors, order, converted: false, shard_of: Some(shard_of) };
    files::plan(&base, request)
}

/// Checks that everything that a plan asks for can be done, before anything is.
///
/// # Errors
/// [`Error::NeedsImatrix`], [`Error::NotInImatrix`], [`Error::Requantize`], [`Error::Encode`],
/// [`Error::Imatrix`].
pub fn check_quantized(
    model: &Model,
    file: &PlannedFile,
    request: &Request<'_>,
    allow_requantize: bool,
) -> Result<(), Error> {
    files::check(file, &model_tensors(model), request, allow_requantize)
}

/// The work of writing `files`, all planned from this model: one entry for each tensor in the
/// model's order, with one target for each file. `ones` is what [`crate::ones_for`] gives.
///
/// # Errors
/// [`Error::Imatrix`].
pub fn quantize_works<'a>(
    model: &'a Model,
    files: &[PlannedFile],
    request: &Request<'a>,
    ones: &'a [f32],
) -> Result<Vec<Work<'a>>, Error> {
    let work = |(file, tensor): (&'a gguf::File, &'a gguf::TensorInfo)| {
        Work::new(tensor.name.clone(), TensorRows::Gguf { file, tensor })
    };
    let mut works: Vec<Work<'a>> = model.tensors().map(work).collect();
    files::add_targets(&mut works, files, &model_tensors(model), request, ones)?;
    Ok(works)
}

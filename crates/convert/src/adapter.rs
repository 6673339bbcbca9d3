//! Files of LoRA adapters.
//!
//! Source: `convert_lora_to_gguf.py` and `ModelBase.prepare_tensors` in `conversion/base.py` of
//! llama.cpp, as vendored in llama-cpp-python 0.3.36.

use arch::{Layout, Options};
use gguf::{DEFAULT_ALIGNMENT, Endian, Plan};
use source::Checkpoint;
use tensor::DType;

use crate::{
    Choice, Error, PlannedFile, arch_input,
    plan::converted_metadata,
    recipes::{Reason, Recipe},
};

/// Resolves an adapter by the config of its base model, whose weights need not be there.
///
/// # Errors
/// As [`crate::resolve`].
pub fn resolve_adapter(base: &Checkpoint, adapter: &Checkpoint, options: &Options) -> Result<Layout, Error> {
    arch::resolve_adapter(&arch_input(base)?, &arch_input(adapter)?, options).map_err(Error::Arch)
}

/// Plans the file of an adapter: every pair in the type of the recipe (F32, F16, BF16 or Q8_0); in
/// F16 where its rows do not divide into blocks.
///
/// # Errors
/// [`Error::Shape`], [`Error::Gguf`].
pub fn plan_adapter(layout: &Layout, recipe: &'static Recipe) -> Result<PlannedFile, Error> {
    let mut tensors = Vec::with_capacity(layout.tensors.len());
    let mut choices = Vec::with_capacity(layout.tensors.len());
    for (index, tensor) in layout.tensors.iter().enumerate() {
        let fits = tensor.shape.row_elems().is_multiple_of(recipe.default.block_elems());
        let dtype = match (tensor.keep_f32, fits) {
            (true, _) => DType::F32,
            (false, true) => recipe.default,
            (false, false) => DType::F16,
        };
        let (reason, fallback) = (Reason::Default, None);
        choices.push(Choice {
            tensor: index,
            dtype,
            reason,
            fallback,
            raised_from: None,
            requires_imatrix: false,
        });
        tensors.push((tensor.name.clone(), tensor.shape, dtype));
    }
    let metadata = converted_metadata(layout, recipe.file_type.id());
    let plan = Plan::new(&metadata, tensors, Endian::Little, DEFAULT_ALIGNMENT).map_err(Error::Gguf)?;
    Ok(PlannedFile { recipe, plan, choices, shard: None })
}

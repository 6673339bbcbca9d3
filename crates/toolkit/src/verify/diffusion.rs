//! Checks of files of diffusion models, which ComfyUI-GGUF and stable-diffusion.cpp load.
//!
//! Source: `gguf_sd_loader` and `get_orig_shape` in `loader.py` of city96/ComfyUI-GGUF@795e451.

use std::collections::HashMap;

use gguf_container::{Array, Metadata, Model, Value};
use gguf_conversion::recipes::TensorFacts;
use gguf_layout::DiffusionFile;
use gguf_models::FAMILIES;
use gguf_types::GGML_MAX_DIMS;

use super::report::{Check, Finding};
use crate::metadata_json::type_of;

/// Prefix of the key with the shape that a tensor has outside of the file, outermost dimension first.
const ORIGINAL_SHAPE: &str = "comfy.gguf.orig_shape.";

/// Facts of a file, if it has a diffusion model or parts of one.
pub fn of(metadata: &Metadata, tensors: &[TensorFacts<'_>]) -> Option<DiffusionFile> {
    FAMILIES.diffusion_file(metadata, tensors.iter().map(|tensor| (tensor.name, tensor.shape)))
}

/// Names, shapes and types of a model's tensors.
pub fn tensors(model: &Model) -> Vec<TensorFacts<'_>> {
    let infos = model.tensors().map(|(_, info)| info);
    infos.map(|info| TensorFacts { name: &info.name, shape: info.shape, dtype: info.dtype }).collect()
}

/// Checks if ComfyUI-GGUF loads the file.
pub fn loader(file: &DiffusionFile, metadata: &Metadata, tensors: &[TensorFacts<'_>]) -> Check {
    let mut check = Check::new("loader");
    check.findings = refusals(file, metadata, tensors);
    if check.findings.is_empty() {
        check.summary = "ComfyUI-GGUF loads the file".to_owned();
    }
    check
}

/// Names the family, and checks that its tensors have the ranks that ComfyUI and diffusers expect.
pub fn architecture(file: &DiffusionFile, tensors: &[TensorFacts<'_>]) -> Check {
    let mut check = Check::new("architecture");
    let Some(row) = file.row else { return check.skipped("no diffusion model has these tensors") };
    match file.recognized {
        Some(other) if other.name != row.name => {
            let message = format!(
                "`general.architecture` is `{}`, but the tensors are those of `{}`",
                row.name, other.name
            );
            check.push(Finding::warning("architecture", message));
        }
        None => {
            let message = format!("the tensors by which `{}` is recognized are missing", row.name);
            check.push(Finding::warning("architecture", message));
        }
        Some(_) => {}
    }
    check.summary = format!("{}: {}", row.name, row.models);
    if !file.prefix.is_empty() {
        let n_others = tensors.iter().filter(|tensor| file.own_name(tensor.name).is_none()).count();
        check.summary += &format!(", with prefix `{}`; {n_others} tensors of other models", file.prefix);
    }
    for tensor in tensors {
        let own = file.own_name(tensor.name).filter(|name| row.keeps_rank(name));
        if own.is_some() && tensor.shape.n_dims() < 3 {
            let message = format!(
                "tensor `{}`: expected 3 dimensions, found {} with shape {}; a trailing 1 was lost",
                tensor.name,
                tensor.shape.n_dims(),
                tensor.shape
            );
            check.push(Finding::error("rank", message));
        }
        if tensor.shape.n_dims() > GGML_MAX_DIMS {
            let message = format!(
                "tensor `{}` has {} dimensions, as ComfyUI needs; recent releases of gguf-py refuse more than {GGML_MAX_DIMS}",
                tensor.name,
                tensor.shape.n_dims()
            );
            check.push(Finding::note("many_dims", message));
        }
    }
    if row.five_dims && tensors.iter().all(|tensor| tensor.shape.n_dims() <= GGML_MAX_DIMS) {
        let message = "no tensor has 5 dimensions, but the model has one: the file is from convert.py of ComfyUI-GGUF without \
            fix_5d_tensors.py, or from stable-diffusion.cpp, which folds it";
        check.push(Finding::warning("no_5d_tensor", message));
    }
    check
}

/// Reasons why ComfyUI-GGUF does not load a file, and warnings about what it would load wrongly.
pub fn refusals(file: &DiffusionFile, metadata: &Metadata, tensors: &[TensorFacts<'_>]) -> Vec<Finding> {
    let refused = |code, message: String| {
        Finding::error(code, format!("ComfyUI-GGUF does not load the file: {message}"))
    };
    let mut found = Vec::new();
    let architecture = metadata.get("general.architecture").and_then(Value::as_str);
    match file.row {
        Some(row) if !row.loads => {
            found.push(refused("architecture", format!("unknown architecture `{}`", row.name)));
        }
        Some(row) if file.is_misnamed(metadata) => {
            let message = format!(
                "unknown architecture `{}`; the tensors are those of `{}`",
                architecture.unwrap_or_default(),
                row.name
            );
            found.push(refused("architecture", message));
        }
        None if architecture.is_some() => {
            found.push(refused("architecture", "no known model has these tensors".to_owned()));
        }
        None => {
            let message = "ComfyUI-GGUF does not load the file as a diffusion model: no known model has these tensors; \
                stable-diffusion.cpp finds tensors by name";
            found.push(Finding::warning("architecture", message));
        }
        Some(_) => {}
    }
    if let Some(name) = file.refused {
        let message = format!("tensor `{name}` has a name of diffusers; the original layout is needed");
        found.push(refused("other_layout", message));
    }
    if metadata.get("general.type").is_some_and(|kind| kind.as_str().is_none()) {
        found.push(refused("key", "`general.type` is not a string".to_owned()));
    }
    let by_name: HashMap<&str, &TensorFacts<'_>> =
        tensors.iter().map(|tensor| (tensor.name, tensor)).collect();
    for (key, value) in metadata {
        let Some(name) = key.strip_prefix(ORIGINAL_SHAPE) else { continue };
        let Value::Array(Array::I32(dims)) = value else {
            let message = format!("`{key}`: expected type arr[i32], found {}", type_of(value));
            found.push(refused("original_shape", message));
            continue;
        };
        let Some(tensor) = by_name.get(name) else {
            found.push(Finding::warning("original_shape", format!("`{key}`: no tensor `{name}`")));
            continue;
        };
        let product =
            dims.iter().try_fold(1u64, |product, dim| product.checked_mul(u64::try_from(*dim).ok()?));
        if product != Some(tensor.shape.n_elems()) {
            let message = format!(
                "`{key}` is {dims:?}, but the tensor has {} elements in shape {}",
                tensor.shape.n_elems(),
                tensor.shape
            );
            found.push(refused("original_shape", message));
        }
    }
    found
}

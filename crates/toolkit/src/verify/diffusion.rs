//! Checks of files of diffusion models, which ComfyUI-GGUF and stable-diffusion.cpp load.
//!
//! Source: `gguf_sd_loader` and `get_orig_shape` in `loader.py` of city96/ComfyUI-GGUF@795e451 and molbal/ComfyUI-GGUF@07700e1.

use std::collections::HashMap;

use gguf_container::{Array, Metadata, Model, Value};
use gguf_conversion::recipes::TensorFacts;
use gguf_layout::{Diffusion, DiffusionFile, ORIGINAL_SHAPE_KEY, incomplete, unknown_parts};
use gguf_models::FAMILIES;
use gguf_types::{DType, GGML_MAX_DIMS, MAX_DIMS, list_names};

use super::report::{Check, Finding};
use crate::metadata_json::type_of;

/// Types that gguf-py 0.19 decodes, with which ComfyUI-GGUF loads files (`_type_traits` in `gguf/quants.py`).
const DECODED: &[DType] = {
    use DType::*;
    &[
        BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, TQ1_0, TQ2_0, MXFP4, NVFP4,
        IQ2_XXS, IQ2_XS, IQ2_S, IQ3_XXS, IQ3_S, IQ1_S, IQ1_M, IQ4_NL, IQ4_XS,
    ]
};

/// ComfyUI-GGUF in one of its versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nodes {
    /// city96/ComfyUI-GGUF.
    Original,
    /// molbal/ComfyUI-GGUF, which knows more architectures and decodes BF16 of all tensors.
    Successor,
}

impl Nodes {
    /// Its name in findings.
    pub const fn title(self) -> &'static str {
        match self {
            Nodes::Original => "ComfyUI-GGUF",
            Nodes::Successor => "ComfyUI-GGUF of molbal",
        }
    }

    fn loads(self, row: &Diffusion) -> bool {
        match self {
            Nodes::Original => row.loads(),
            Nodes::Successor => row.loads_in_successor(),
        }
    }
}

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
pub fn loader(nodes: Nodes, file: &DiffusionFile, metadata: &Metadata, tensors: &[TensorFacts<'_>]) -> Check {
    let mut check = Check::new("loader");
    check.findings = refusals(nodes, file, metadata, tensors);
    if !missing(file, tensors).is_empty() {
        return check.skipped("the model is incomplete");
    }
    if check.findings.is_empty() {
        check.summary = format!("{} loads the file", nodes.title());
    }
    check
}

/// Missing tensors of the file's model, if its tensors are not those of another model or layout.
fn missing(file: &DiffusionFile, tensors: &[TensorFacts<'_>]) -> Vec<String> {
    let own = |row: &&Diffusion| file.recognized.is_none_or(|found| found.name == row.name);
    let row = file.row.filter(own).filter(|_| file.refused.is_none());
    row.map_or_else(Vec::new, |row| incomplete(row, own_names(file, tensors)))
}

/// Names of the model's tensors in the tables of families.
fn own_names<'a>(
    file: &'a DiffusionFile,
    tensors: &'a [TensorFacts<'a>],
) -> impl Iterator<Item = &'a str> + Clone {
    tensors.iter().filter_map(|tensor| file.own_name(tensor.name))
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
    let faults = missing(file, tensors);
    check.findings.extend(faults.iter().map(|fault| Finding::warning("incomplete", fault)));
    let unknown = unknown_parts(row, own_names(file, tensors)).filter(|_| file.refused.is_none());
    check.findings.extend(unknown.map(|note| Finding::note("unknown", note)));
    for tensor in tensors {
        let expected = file.own_name(tensor.name).and_then(|name| row.rank_of(name));
        if let Some(expected) = expected.filter(|expected| tensor.shape.n_dims() < *expected) {
            let message = format!(
                "tensor `{}`: expected {expected} dimensions, found {} with shape {}; a trailing 1 was lost",
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
pub fn refusals(
    nodes: Nodes,
    file: &DiffusionFile,
    metadata: &Metadata,
    tensors: &[TensorFacts<'_>],
) -> Vec<Finding> {
    let title = nodes.title();
    let refused =
        |code, message: String| Finding::error(code, format!("{title} does not load the file: {message}"));
    let mut found = Vec::new();
    let architecture = metadata.get("general.architecture").and_then(Value::as_str);
    match file.row {
        Some(row) if !nodes.loads(row) => {
            let other =
                if row.loads_in_successor() { "; its successor molbal/ComfyUI-GGUF does" } else { "" };
            found.push(refused("architecture", format!("unknown architecture `{}`{other}", row.name)));
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
            let name = architecture.unwrap_or_default();
            let message = format!("unknown architecture `{name}`, and no known model has these tensors");
            found.push(refused("architecture", message));
        }
        None => {
            let message = format!(
                "{title} does not load the file as a diffusion model: no known model has these tensors; \
                 stable-diffusion.cpp finds tensors by name"
            );
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
    found.extend(undecoded(nodes, file, metadata, tensors).map(|message| match architecture {
        Some(_) => refused("type", message),
        None => Finding::warning("type", format!("{title} does not load the file: {message}")),
    }));
    let by_name: HashMap<&str, &TensorFacts<'_>> =
        tensors.iter().map(|tensor| (tensor.name, tensor)).collect();
    for (key, value) in metadata {
        let Some(name) = key.strip_prefix(ORIGINAL_SHAPE_KEY) else { continue };
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

/// Tensors in types that ComfyUI-GGUF does not decode: in such a type, or parameters of layers that it does not replace.
fn undecoded(
    nodes: Nodes,
    file: &DiffusionFile,
    metadata: &Metadata,
    tensors: &[TensorFacts<'_>],
) -> impl Iterator<Item = String> {
    let n_dims = |tensor: &TensorFacts<'_>| {
        let stated = metadata.get(&format!("{ORIGINAL_SHAPE_KEY}{}", tensor.name)).and_then(Value::as_array);
        let stated = stated.map(Array::len).filter(|n_dims| *n_dims <= MAX_DIMS);
        stated.unwrap_or(tensor.shape.n_dims())
    };
    let stored: Vec<&TensorFacts<'_>> =
        tensors.iter().filter(|tensor| !matches!(tensor.dtype, DType::F32 | DType::F16)).collect();
    let (decoded, bare): (Vec<&TensorFacts<'_>>, Vec<&TensorFacts<'_>>) =
        stored.into_iter().partition(|tensor| {
            file.is_decoded(tensor.name, n_dims(tensor))
                || nodes == Nodes::Successor && tensor.dtype == DType::BF16
        });
    let listed = |tensors: Vec<&TensorFacts<'_>>, what: &str| {
        let names: Vec<String> =
            tensors.iter().map(|tensor| format!("{} ({})", tensor.name, tensor.dtype.name())).collect();
        (!names.is_empty()).then(|| format!("{what}: {}", list_names(&names)))
    };
    let other_types = decoded.into_iter().filter(|tensor| !DECODED.contains(&tensor.dtype)).collect();
    let bare = listed(
        bare,
        "expected f32 or f16, since only weights of linear layers and two-dimensional convolutions are decoded",
    );
    let types = listed(other_types, "types that gguf-py 0.19 does not decode");
    bare.into_iter().chain(types)
}

//! From a checkpoint of a diffusion model to the layout of its file.
//!
//! A file has the tensors of the checkpoint without the prefix of the model, in their order, and these keys:
//! `general.architecture`, `general.quantization_version`, `general.file_type`, then the original shape of each reshaped
//! tensor. A float file has three types: F32 for small tensors, BF16 for tensors that the checkpoint has in bf16, and F16
//! for all others.
//!
//! Source: `strip_prefix` and `handle_tensors` in `tools/convert.py`, and `tools/fix_5d_tensors.py`, of
//! city96/ComfyUI-GGUF@795e451.

use std::collections::{BTreeMap, HashMap};

use gguf_container::{Array, MAX_TENSOR_NAME_BYTES, Metadata};
use gguf_types::{DType, GGML_MAX_DIMS, Shape, counted, list_names};

use crate::diffusers_layout::{OriginalTensor, original_tensors};
use crate::diffusion::{Diffusion, DiffusionSource};
use crate::diffusion_parts::{incomplete, unknown_parts};
use crate::error::{ArchError, shape_of};
use crate::layout::{Data, Dropped, ElementMap, FloatType, Layout, OutTensor, RowMap};
use crate::registry::Families;

/// Prefixes of the names of a diffusion model in a file with other models.
const PREFIXES: &[&str] = &["model.diffusion_model.", "model."];
/// Prefixes that all names of a file have.
const WHOLE_PREFIXES: &[&str] = &["net.", "diffusion_model.", "transformer."];

/// The entry of `__metadata__` that becomes a key, from which ComfyUI takes options of a model.
const CONFIG: &str = "config";

/// Faults of a checkpoint that warnings list.
const MAX_FAULTS: usize = 3;

/// Name of the type that float files keep; other types become F16.
const BF16: &str = "BF16";

/// Tensors of fewer elements are not reshaped.
const RESHAPED_ELEMS: u64 = 512;
/// Elements of a row of a reshaped tensor: a super-block.
const ROW_ELEMS: u64 = 256;
/// Prefix of the keys with original shapes, outermost dimension first.
pub const ORIGINAL_SHAPE_KEY: &str = "comfy.gguf.orig_shape.";

/// First parts of the names of other models in one file with a diffusion model, and what they are.
const OTHERS: &[(&str, &str)] = &[
    ("model_ema", "an EMA copy"),
    ("ema", "an EMA copy"),
    ("first_stage_model", "a VAE"),
    ("vae", "a VAE"),
    ("audio_vae", "an audio VAE"),
    ("vocoder", "a vocoder"),
    ("cond_stage_model", "text encoders"),
    ("conditioner", "text encoders"),
    ("text_encoders", "text encoders"),
    ("text_embedding_projection", "text encoders"),
    ("control_model", "a ControlNet"),
    ("optimizer", "a training state"),
];

const CONTROL: &str = "a ControlNet";
/// Starts of the names of a ControlNet.
const OF_CONTROL: &[&str] = &["input_hint_block.", "controlnet_", "zero_convs."];

/// Parts of names of files that are not a diffusion model, and what has them.
const OTHER_FILES: &[(&str, &str)] = &[
    ("lora_down.weight", "a LoRA adapter"),
    ("lora_up.weight", "a LoRA adapter"),
    (".lora_A.", "a LoRA adapter"),
    (".lora_B.", "a LoRA adapter"),
    (".lora.down.", "a LoRA adapter"),
    ("_embeddings_connector.", "the connectors of LTX-2"),
    ("vace_blocks.", "a VACE module of Wan"),
    ("lora_unet_", "a LoRA adapter"),
    ("hada_w1_a", "a LoHa adapter"),
    ("lokr_w1", "a LoKr adapter"),
    ("input_hint_block.", CONTROL),
    ("controlnet_", CONTROL),
    ("zero_convs.", CONTROL),
    ("control_model.", CONTROL),
    ("ip_adapter.", "an IP-Adapter"),
    ("motion_modules.", "a motion module of AnimateDiff"),
    ("text_model.encoder.layers.", "a CLIP text encoder"),
    ("layer.0.SelfAttention.", "a T5 text encoder"),
    ("model.layers.0.self_attn.", "a language model"),
    ("vision_model.encoder.layers.", "a CLIP image encoder"),
    ("decoder.conv_in.", "a VAE"),
    ("decoder.up_blocks.", "a VAE"),
    ("decoder.up.", "a VAE"),
    ("decoder.upsamples.", "a VAE"),
    ("quant_conv.", "a VAE"),
];

/// Statements about a diffusion model from outside of its tensors.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DiffusionClaims<'a> {
    /// Its class in diffusers, or in the code of its authors.
    pub class: Option<&'a str>,
    /// The architecture that it is converted as, whatever its tensors are: a row, or a name without a row.
    pub arch_as: Option<&'a str>,
}

/// The diffusion model in a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiffusionPart {
    /// Its row.
    pub row: &'static Diffusion,
    /// `general.architecture` of its file.
    pub architecture: String,
    /// Prefix of its tensors.
    pub prefix: &'static str,
    /// The name of another layout that it has.
    pub refused: Option<&'static str>,
    /// True if it is in the layout of diffusers, from which the original one can be made.
    pub from_diffusers: bool,
    /// True if tensors are reshaped to rows of 256 elements ([`Diffusion::reshapes`]).
    pub reshapes: bool,
}

/// Types of a tensor in float files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiffusionFloat {
    /// The type that follows from that of the checkpoint.
    pub own: DType,
    /// True if the tensor stays F32 in a file of another type: it is small, or not decoded by ComfyUI-GGUF.
    pub is_small: bool,
}

impl DiffusionFloat {
    /// The type in a float file of `file`; `usual` is the type of most tensors of the checkpoint.
    pub fn dtype(self, file: DType, usual: DType) -> DType {
        match () {
            () if file == usual => self.own,
            () if self.is_small => DType::F32,
            () => file,
        }
    }
}

/// The layout of a diffusion model.
#[derive(Debug, Clone)]
pub struct DiffusionLayout {
    /// Its row.
    pub row: &'static Diffusion,
    /// Metadata and tensors. [`OutTensor::float`] is not used.
    pub layout: Layout,
    /// Types of each tensor in float files.
    pub floats: Vec<DiffusionFloat>,
    /// The type that a float file usually has: BF16 if most tensors of the checkpoint are bf16, otherwise F16.
    pub usual: DType,
}

/// Finds the diffusion model among the tensors of a checkpoint.
///
/// # Errors
/// [`ArchError::UnknownDiffusion`], [`ArchError::OtherDiffusion`].
pub fn find_diffusion(
    families: &Families,
    tensors: &[DiffusionSource],
    claims: DiffusionClaims<'_>,
) -> Result<DiffusionPart, ArchError> {
    let found = recognized(families, tensors, claims.class);
    let Some(name) = claims.arch_as else {
        let part = found?;
        return match claims.class {
            Some(class) if !families.has_diffusion_class(&part.architecture, class) => {
                let (class, models) = (class.to_owned(), part.row.models.as_str());
                Err(ArchError::OtherDiffusion { class, architecture: part.architecture, models })
            }
            _ => Ok(part),
        };
    };
    match found {
        Ok(part) if part.architecture == name => Ok(part),
        _ => {
            let row = families.diffusion(name).unwrap_or_else(Diffusion::generic);
            Ok(DiffusionPart {
                row,
                architecture: name.to_owned(),
                prefix: used_prefixes(tensors).find(|prefix| *prefix != "model.").unwrap_or_default(),
                refused: None,
                from_diffusers: false,
                reshapes: row.reshapes,
            })
        }
    }
}

/// The model that the tensors of a checkpoint determine.
fn recognized(
    families: &Families,
    tensors: &[DiffusionSource],
    class: Option<&str>,
) -> Result<DiffusionPart, ArchError> {
    let unknown = |looks_like, nearest| {
        let (class, n_tensors) = (class.map(str::to_owned), tensors.len());
        ArchError::UnknownDiffusion { class, looks_like, nearest, n_tensors }
    };
    let part = |row: &'static Diffusion, prefix, refused, from_diffusers| {
        let (architecture, reshapes) = (row.name.clone(), row.reshapes);
        Ok(DiffusionPart { row, architecture, prefix, refused, from_diffusers, reshapes })
    };
    if let Some(row) = class.and_then(|class| families.diffusion_of_class(class)) {
        return part(row, "", None, false);
    }
    let outermost: HashMap<&str, u64> = tensors
        .iter()
        .map(|tensor| (tensor.name.as_str(), tensor.shape.first().copied().unwrap_or(1)))
        .collect();
    for prefix in used_prefixes(tensors).chain([""]) {
        let found =
            families.detect_diffusion(|name| outermost.get(format!("{prefix}{name}").as_str()).copied());
        if found.is_none_or(|found| found.refused.is_some())
            && let Some(row) = of_diffusers(families, tensors)
        {
            return part(row, "", None, true);
        }
        if let Some(found) = found {
            // A ControlNet has names of the model that it controls.
            let own = tensors.iter().filter_map(|tensor| tensor.name.strip_prefix(prefix));
            if own.into_iter().any(|name| OF_CONTROL.iter().any(|part| name.starts_with(part))) {
                return Err(unknown(Some(CONTROL), Vec::new()));
            }
            return part(found.row, prefix, found.refused, false);
        }
    }
    let prefix = used_prefixes(tensors).next().unwrap_or_default();
    let has = |name: &str| outermost.contains_key(format!("{prefix}{name}").as_str());
    Err(unknown(looks_like(tensors), nearest(families, has)))
}

/// The prefixes that tensors have.
fn used_prefixes(tensors: &[DiffusionSource]) -> impl Iterator<Item = &'static str> {
    let starts = |prefix: &str| tensors.iter().any(|tensor| tensor.name.starts_with(prefix));
    let all_start = |prefix: &str| tensors.iter().all(|tensor| tensor.name.starts_with(prefix));
    let some = PREFIXES.iter().copied().filter(|prefix| starts(prefix));
    let all = WHOLE_PREFIXES.iter().copied().filter(|prefix| all_start(prefix));
    some.chain(all).collect::<Vec<_>>().into_iter()
}

/// The row of a checkpoint in the layout of diffusers.
fn of_diffusers(families: &Families, tensors: &[DiffusionSource]) -> Option<&'static Diffusion> {
    families.diffusion.iter().filter(|row| !row.tensors.is_empty()).find(|row| {
        let Some(original) = original_tensors(row, tensors) else { return false };
        let outermost: HashMap<&str, u64> = original
            .iter()
            .map(|tensor| (tensor.name.as_str(), tensor.shape.first().copied().unwrap_or(1)))
            .collect();
        let found = families.detect_diffusion(|name| outermost.get(name).copied());
        found.is_some_and(|found| found.row == *row && found.refused.is_none())
    })
}

/// The kind of a file by the first of [`OTHER_FILES`] that a tensor has.
fn looks_like(tensors: &[DiffusionSource]) -> Option<&'static str> {
    let has = |part: &str| tensors.iter().any(|tensor| tensor.name.contains(part));
    OTHER_FILES.iter().find(|(part, _)| has(part)).map(|(_, kind)| *kind)
}

/// Architectures, the best first, with the number of names of one alternative that are present, and that of all of its names.
fn nearest(families: &Families, has: impl Fn(&str) -> bool) -> Vec<(&'static str, usize, usize)> {
    let mut found: Vec<(&'static str, usize, usize)> = Vec::new();
    let rows = families.diffusion.iter();
    for (row, names) in rows.flat_map(|row| row.detect.iter().map(move |names| (row, names))) {
        let n = names.iter().filter(|name| has(name)).count();
        if n > 0 {
            found.push((row.name.as_str(), n, names.len()));
        }
    }
    found.sort_by_key(|(name, n, of)| (of - n, usize::MAX - n, *name));
    found.dedup_by_key(|(name, ..)| *name);
    found.truncate(2);
    found
}

/// Lays out the diffusion model of a checkpoint. `entries` is the `__metadata__` of its files.
///
/// # Errors
/// [`ArchError::OtherLayout`], [`ArchError::LongName`], [`ArchError::Shape`].
pub fn resolve_diffusion(
    part: DiffusionPart,
    tensors: &[DiffusionSource],
    entries: &BTreeMap<String, String>,
) -> Result<DiffusionLayout, ArchError> {
    let DiffusionPart { row, architecture, prefix, refused, from_diffusers, reshapes } = part;
    if let Some(tensor) = refused {
        return Err(ArchError::OtherLayout { architecture: &row.name, models: &row.models, tensor });
    }
    let mut layout = Layout { architecture: &row.name, ..Layout::default() };
    let mut metadata = Metadata::new();
    metadata.set("general.architecture", architecture.as_str());
    // Both are set by the file type.
    metadata.set("general.quantization_version", 0u32);
    metadata.set("general.file_type", 0u32);
    let (mut floats, mut others, mut n_of) = (Vec::new(), BTreeMap::new(), HashMap::new());
    let mut ignored = Vec::new();
    let tensors = if from_diffusers {
        original_tensors(row, tensors).unwrap_or_default()
    } else {
        tensors.iter().map(as_it_is).collect()
    };
    if from_diffusers {
        let note = "the checkpoint has the layout of diffusers; the file has the original names, which loaders expect";
        layout.notes.push(note.to_owned());
    }
    for source in &tensors {
        let Some(name) = source.name.strip_prefix(prefix) else {
            let first = source.name.split('.').next().unwrap_or_default();
            *others.entry(first).or_insert(0usize) += 1;
            let reason = "not part of the diffusion model";
            layout.dropped.push(Dropped { name: source.name.clone(), reason });
            continue;
        };
        *n_of.entry(source.dtype).or_insert(0usize) += 1;
        if row.ignores(name) {
            let reason = "training state, which files of this architecture do not have";
            layout.dropped.push(Dropped { name: source.name.clone(), reason });
            ignored.push(name);
            continue;
        }
        if name.len() > MAX_TENSOR_NAME_BYTES {
            return Err(ArchError::LongName { name: name.to_owned() });
        }
        let dims: Vec<u64> = source.shape.iter().rev().copied().collect();
        let original = shape_of(name, &dims)?;
        let shape = if reshapes { reshaped(&original) } else { None };
        if shape.is_some() {
            metadata
                .set(format!("{ORIGINAL_SHAPE_KEY}{name}"), Array::I32(original_shape(name, &source.shape)?));
        }
        floats.push(float_of(row, name, &original, source.dtype));
        layout.tensors.push(OutTensor {
            name: name.to_owned(),
            shape: shape.unwrap_or(original),
            data: data_of(source),
            float: FloatType::OfFile,
            stored_dtype: None,
        });
    }
    match entries.get(CONFIG) {
        Some(value) => metadata.set(CONFIG, value.as_str()),
        None if row.needs_config => layout.warnings.push(format!(
            "the checkpoint has no entry `{CONFIG}` in `__metadata__`; programs that need it will use defaults"
        )),
        None => {}
    }
    layout.metadata = metadata;
    let names: Vec<&str> = layout.tensors.iter().map(|tensor| tensor.name.as_str()).collect();
    let faults = incomplete(row, names.iter().copied());
    layout.warnings.extend(faults.iter().take(MAX_FAULTS).map(|fault| format!("incomplete model: {fault}")));
    layout.notes.extend(unknown_parts(row, names.iter().copied()));
    layout.notes.extend(others_note(&others));
    if !ignored.is_empty() {
        layout.notes.push(format!("training state is not written: {}", list_names(&ignored)));
    }
    if !row.loads() {
        let other =
            if row.loads_in_successor() { "its successor molbal/ComfyUI-GGUF" } else { "another loader" };
        let note =
            format!("ComfyUI-GGUF of 2025-12 does not load architecture `{architecture}`; use {other}");
        layout.notes.push(note);
    }
    let n_most = n_of.values().copied().max();
    let usual = if n_most.is_some() && n_of.get(BF16).copied() == n_most { DType::BF16 } else { DType::F16 };
    Ok(DiffusionLayout { row, layout, floats, usual })
}

/// The rows of a tensor. ComfyUI recognizes variants of models by empty tensors.
fn data_of(source: &OriginalTensor) -> Data {
    if source.shape.contains(&0) {
        return Data::Computed(Vec::new());
    }
    Data::Rows { sources: source.sources.clone(), rows: source.rows, element: ElementMap::Identity }
}

/// A tensor of the original layout, unchanged.
fn as_it_is(source: &DiffusionSource) -> OriginalTensor {
    OriginalTensor {
        name: source.name.clone(),
        shape: source.shape.clone(),
        dtype: source.dtype,
        sources: vec![source.name.clone()],
        rows: RowMap::Concat,
    }
}

/// The shape with rows of 256 elements, if that makes complete rows of a tensor that has none. Kernels of one and three dimensions
/// keep theirs: ComfyUI-GGUF does not decode them, and nothing may quantize them.
fn reshaped(shape: &Shape) -> Option<Shape> {
    let n_elems = shape.n_elems();
    let is_reshaped = matches!(shape.n_dims(), 2 | 4)
        && n_elems >= RESHAPED_ELEMS
        && n_elems.is_multiple_of(ROW_ELEMS)
        && !shape.row_elems().is_multiple_of(ROW_ELEMS);
    if is_reshaped { Shape::new(&[ROW_ELEMS, n_elems / ROW_ELEMS]).ok() } else { None }
}

/// Dimensions in torch's order as their key contains them.
fn original_shape(name: &str, shape: &[u64]) -> Result<Vec<i32>, ArchError> {
    let dims: Option<Vec<i32>> = shape.iter().map(|dim| i32::try_from(*dim).ok()).collect();
    dims.ok_or_else(|| ArchError::Shape {
        name: name.to_owned(),
        source: gguf_types::ShapeError::Overflow { dims: shape.to_vec() },
    })
}

/// Types of a tensor in float files. The converter of ComfyUI-GGUF has BF16 for parameters that its loader does not decode.
fn float_of(row: &Diffusion, name: &str, shape: &Shape, dtype: &str) -> DiffusionFloat {
    let five_dims = shape.n_dims() > GGML_MAX_DIMS;
    let is_decoded = row.is_decoded(name, shape.n_dims());
    let keeps_f32 = row.is_small(name, shape);
    let own = match dtype {
        _ if five_dims => DType::F32,
        BF16 | "F32" if keeps_f32 => DType::F32,
        BF16 if is_decoded => DType::BF16,
        BF16 => DType::F32,
        _ => DType::F16,
    };
    DiffusionFloat { own, is_small: keeps_f32 || !is_decoded }
}

/// The note on tensors of other models, by the first part of their names.
fn others_note(others: &BTreeMap<&str, usize>) -> Option<String> {
    if others.is_empty() {
        return None;
    }
    let kind = |first: &str| {
        let known = OTHERS.iter().find(|(name, _)| *name == first);
        known.map_or_else(String::new, |(_, kind)| format!("{kind}, "))
    };
    let parts: Vec<String> = others
        .iter()
        .map(|(first, n)| format!("{} ({}`{first}`)", counted(*n, "tensor"), kind(first)))
        .collect();
    Some(format!(
        "only the diffusion model is converted; not written: {}; use them from the original file",
        parts.join(", ")
    ))
}

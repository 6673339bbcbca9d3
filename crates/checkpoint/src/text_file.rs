//! Text models that are one file of weights, such as the text encoders of ComfyUI.
//!
//! ```text
//! t5xxl_fp16.safetensors                     names of transformers; sizes follow from the shapes
//! umt5_xxl_fp8_e4m3fn_scaled.safetensors     with scales, and the tokenizer as bytes of a tensor
//! models_t5_umt5-xxl-enc-bf16.safetensors    names of Wan's authors
//! text_encoders.t5xxl.transformer.* only     the encoder of a pipeline in one file
//! qwen_2.5_vl_7b.safetensors                 sizes do not follow from the shapes: config.json is needed
//! ```
//!
//! Config and tokenizer come from the folder of [`Folder::config_from`], or else from the file.

use std::path::Path;

use gguf_types::counted;
use serde_json::Value as Json;

use crate::{
    Checkpoint, Error, FamilyForm, Folder, Listing, Tensor, Tensors, Weights,
    checkpoint::{config_from, open},
    diffusion::{check_whole, open_file},
    listing::place_of,
    methods::{self, Decoded},
    small_files::{MAX_FILE_BYTES, tokenizer_of_folder},
    wrappers,
};

/// Tensors that contain the bytes of a file.
///
/// Source: `comfy/sd.py` and `comfy/text_encoders` of ComfyUI, as read by city96/ComfyUI-GGUF@795e451
/// `loader.py`.
const EMBEDDED: &[(&str, &str)] = &[("spiece_model", "spiece.model"), ("tekken_model", "tekken.json")];
/// Tensors that only decoders have, whose config does not follow from shapes.
const DECODER: &[&str] = &["model.embed_tokens.weight", "model.layers.0.self_attn.q_proj.weight"];
/// A tensor of CLIP's text models.
const CLIP: &str = "text_model.embeddings.token_embedding.weight";
/// Prefix of the text encoders in a file of a pipeline, and the part after the name of the encoder.
const PIPELINE_PART: &str = "text_encoders.";
const TRANSFORMER: &str = ".transformer.";
const ENDINGS: &[&str] = &[".safetensors", ".sft"];

/// True for a weights file of a text model without a config.json next to it. `forms` derive configs from
/// shapes. Reads the header of a file with one of the usual suffixes.
pub fn is_text_file(path: &Path, forms: &[FamilyForm]) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if !ENDINGS.iter().any(|ending| name.ends_with(ending)) || !path.is_file() {
        return false;
    }
    let (dir, file) = place_of(path);
    if dir.join("config.json").is_file() {
        return false;
    }
    let Ok((mut weights, _)) = open_file(dir, &Listing::default(), &file) else { return false };
    rename(&mut weights.tensors, forms);
    let has = |name: &str| weights.tensors.iter().any(|tensor| tensor.name == name);
    has(CLIP) || DECODER.iter().all(|name| has(name)) || derived(&weights.tensors, forms).is_some()
}

/// Opens a text model: a folder like in [`open`], or a weights file.
///
/// # Errors
/// Those of [`open`]; [`Error::MissingFile`] for a file whose config does not follow from the shapes of its
/// tensors.
pub fn open_text(folder: impl Into<Folder>) -> Result<Checkpoint, Error> {
    let folder = folder.into();
    if !is_text_file(folder.path(), folder.known_forms()) {
        return open(folder);
    }
    let (dir, file) = place_of(folder.path());
    check_whole(&file)?;
    let (weights, format) = open_file(dir, &Listing::default(), &file)?;
    let Weights { parts, mut tensors, mut notes } = weights;
    wrappers::unwrap(&mut tensors, &parts, &mut notes)?;
    let (config, mut files) = match folder.config_folder() {
        Some(config) => (config_from(config)?, tokenizer_of_folder(config)?),
        None => (None, Vec::new()),
    };
    if rename(&mut tensors, folder.known_forms()) {
        notes.push("tensor names are changed to those of transformers".to_owned());
    }
    let is_elsewhere = !files.is_empty();
    for (tensor, file) in EMBEDDED {
        let Some(at) = tensors.iter().position(|other| other.name == *tensor) else { continue };
        let tensor = tensors.remove(at);
        if is_elsewhere {
            continue;
        }
        if tensor.n_bytes() > MAX_FILE_BYTES {
            let (found, limit) = (tensor.n_bytes(), MAX_FILE_BYTES);
            return Err(Error::FileTooLarge { file: tensor.name, found, limit });
        }
        files.push(((*file).to_owned(), tensor.span().of(&parts)?.to_vec()));
        notes.push(format!("the tokenizer is read from tensor `{}`", tensor.name));
    }
    let config = match config {
        Some(config) => config,
        None => {
            let derived = derived(&tensors, folder.known_forms());
            let (form, config) = derived.ok_or_else(|| no_config(&tensors))?;
            notes.push("missing config.json; sizes are those of the tensors".to_owned());
            let n_tensors = tensors.len();
            tensors.retain(|tensor| !form.left_out.iter().any(|start| tensor.name.starts_with(start)));
            if tensors.len() < n_tensors {
                let n = counted(n_tensors - tensors.len(), "tensor");
                notes.push(format!("only the encoder is converted; not written: {n} of the decoder"));
            }
            config
        }
    };
    let (method, Decoded { tensors, notes: more }) = methods::decode_diffusion(&config, &parts, &tensors)?;
    let stem = ENDINGS.iter().find_map(|ending| file.strip_suffix(ending)).unwrap_or(&file);
    Ok(Checkpoint {
        warnings: Vec::new(),
        folder_name: stem.to_owned(),
        format,
        config,
        generation_config: None,
        files,
        card: None,
        notes: [notes, more].concat(),
        parts,
        tensors: Tensors::from(tensors),
        method,
        settled: true,
    })
}

/// Changes names to those of transformers: removes the prefix of a pipeline's part, which all tensors have,
/// and converts names of the model's authors. Returns true if names changed.
fn rename(tensors: &mut [Tensor], forms: &[FamilyForm]) -> bool {
    let of_pipeline = |name: &str| {
        let rest = name.strip_prefix(PIPELINE_PART)?;
        Some(rest.split_once(TRANSFORMER)?.1.to_owned())
    };
    let known = forms.iter().filter_map(|form| form.name);
    let renames = std::iter::once(of_pipeline as fn(&str) -> Option<String>).chain(known);
    for rename in renames {
        if let Some(names) = tensors.iter().map(|tensor| rename(&tensor.name)).collect::<Option<Vec<_>>>() {
            tensors.iter_mut().zip(names).for_each(|(tensor, name)| tensor.name = name);
            return !tensors.is_empty();
        }
    }
    false
}

/// Config that a family derives from shapes.
fn derived<'a>(tensors: &[Tensor], forms: &'a [FamilyForm]) -> Option<(&'a FamilyForm, Json)> {
    let shapes: Vec<(&str, &[u64])> =
        tensors.iter().map(|tensor| (tensor.name.as_str(), &tensor.shape[..])).collect();
    forms.iter().find_map(|form| Some((form, form.config?(&shapes)?)))
}

fn no_config(tensors: &[Tensor]) -> Error {
    if tensors.iter().any(|tensor| tensor.name == CLIP) {
        Error::Clip
    } else {
        Error::MissingFile { file: "config.json".to_owned() }
    }
}

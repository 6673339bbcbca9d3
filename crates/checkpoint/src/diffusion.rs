//! Weights of a diffusion model: one file, shards, or the model in a folder of a diffusers pipeline.
//!
//! ```text
//! flux1-dev.safetensors, hunyuan.pt            one file, also of a whole pipeline (VAE, text encoders)
//! FOLDER/diffusion_pytorch_model*.safetensors  as diffusers saves a model, in one file or in shards
//! FOLDER/NAME.safetensors                      the only weights file of a folder
//! FOLDER/model_index.json                      a pipeline; its model is in `transformer` or `unet`
//! ```
//!
//! Tensors keep their names and file order, like in `safetensors.torch.load_file`; those of a pickle are in
//! dictionary order.

use std::{
    fs,
    io::Read,
    path::{Path, PathBuf},
};

use serde_json::Value as Json;

use crate::{
    Checkpoint, Error, Folder, Listing, Tensors, Weights, is_legacy,
    listing::place_of,
    methods::{self, Decoded},
    safetensors,
    shards::Shards,
    small_files::read_object,
    torch, wrappers,
};

const SHARDS: Shards = Shards {
    prefix: "diffusion_pytorch_model",
    suffix: ".safetensors",
    index: "diffusion_pytorch_model.safetensors.index.json",
};
/// A model saved by diffusers before safetensors.
const PICKLES: Shards = Shards {
    prefix: "diffusion_pytorch_model",
    suffix: ".bin",
    index: "diffusion_pytorch_model.bin.index.json",
};
const PIPELINE: &str = "model_index.json";
/// Folders of a pipeline that may contain its diffusion model; the first existing one is converted.
const MODELS: &[&str] = &["transformer", "unet"];
/// Folders of a pipeline with another diffusion model, for other noise levels or resolutions.
const OTHER_MODELS: &[&str] = &["unet", "transformer_2", "unet_2", "prior", "decoder"];
/// Suffixes of files that may contain weights.
const ENDINGS: &[&str] = &[".safetensors", ".sft", ".ckpt", ".pt", ".pth", ".bin"];
const SAFETENSORS: &str = "safetensors";
const TORCH: &str = "torch pickles";
/// A key in configs of text models, which diffusers does not write.
const TEXT_CONFIG: &str = "architectures";

/// True for a path that [`open_diffusion`] may read: a weights file that does not belong to the checkpoint of
/// a text model, or a folder in the layout of diffusers. Reads the beginning of a file or the names in a
/// folder.
pub fn is_diffusion(path: &Path) -> bool {
    if path.is_file() {
        let folder = path.parent().map(|folder| folder.join("config.json"));
        let of_text_model = folder.is_some_and(|config| is_text_config(&config));
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        return has_ending(name) && is_weights(path) && !of_text_model && !is_legacy(path);
    }
    let Ok(listing) = Listing::of(path) else { return false };
    if is_text_config(&path.join("config.json")) || listing.has(LIT_GPT) {
        return false;
    }
    listing.has(PIPELINE)
        || SHARDS.detect(&listing).is_some()
        || PICKLES.detect(&listing).is_some()
        || !listing.has("params.json") && only_file(&listing).is_some_and(|file| is_weights(&path.join(file)))
}

fn has_ending(name: &str) -> bool {
    ENDINGS.iter().any(|ending| name.ends_with(ending))
}

/// Weights file of LitGPT's text models.
const LIT_GPT: &str = "lit_model.pth";

/// True for a config of transformers.
fn is_text_config(path: &Path) -> bool {
    let Some((dir, name)) = path.parent().zip(path.file_name().and_then(|name| name.to_str())) else {
        return false;
    };
    path.is_file() && read_object(dir, name).is_ok_and(|config| config.get(TEXT_CONFIG).is_some())
}

/// True if a file begins like safetensors or a pickle.
fn is_weights(path: &Path) -> bool {
    let mut start = [0; 16];
    let read = fs::File::open(path).and_then(|mut file| file.read(&mut start));
    read.is_ok_and(|n| torch::is_pickle(&start[..n]) || n > 8 && safetensors::begins(&start[..n]))
}

/// The only weights file of a folder, unless it has the name of a text model's checkpoint.
fn only_file(listing: &Listing) -> Option<String> {
    let files: Vec<&String> = listing.names().iter().filter(|name| has_ending(name)).collect();
    let starts = ["model", "pytorch_model", "consolidated", "adapter", "gptq_model-"];
    let of_text = |name: &str| starts.iter().any(|start| name.starts_with(start));
    match files[..] {
        [only] if !of_text(only) && !listing.has("adapter_config.json") => Some(only.clone()),
        _ => None,
    }
}

/// Opens the weights of a diffusion model: headers only. Codes are not decoded yet ([`Checkpoint::decode_diffusion`]).
///
/// The config is that of diffusers if there is one, otherwise `null`.
///
/// # Errors
/// [`Error`]: the missing or invalid item, with the file's name.
pub fn open_diffusion(folder: &Folder) -> Result<Checkpoint, Error> {
    let path = folder.path();
    if path.is_file() {
        let (dir, file) = place_of(path);
        let listing = Listing::default();
        check_whole(&file)?;
        let (weights, format) = open_file(dir, &listing, &file)?;
        let stem = ENDINGS.iter().find_map(|ending| file.strip_suffix(ending)).unwrap_or(&file).to_owned();
        return finished(weights, format, stem, Json::Null, Vec::new());
    }
    let listing = folder.listing()?;
    if !listing.has(PIPELINE) {
        return open_folder(path, &listing, folder.name(), Vec::new());
    }
    let is_model = |name: &&&str| Listing::of(&path.join(name)).is_ok();
    let Some(model) = MODELS.iter().find(is_model) else {
        return Err(Error::NoPipelineModel { expected: MODELS });
    };
    let mut notes = Vec::new();
    let others = OTHER_MODELS.iter().filter(|name| *name != model).filter(is_model);
    let others: Vec<String> = others.map(|name| format!("`{name}`")).collect();
    if !others.is_empty() {
        notes.push(format!(
            "the pipeline has more than one diffusion model; `{model}` is read, and {} can be converted by its own folder",
            others.join(", ")
        ));
    }
    let dir = path.join(model);
    open_folder(&dir, &Listing::of(&dir)?, folder.name(), notes)
}

fn open_folder(dir: &Path, listing: &Listing, name: String, notes: Vec<String>) -> Result<Checkpoint, Error> {
    let config = if listing.has("config.json") { read_object(dir, "config.json")? } else { Json::Null };
    // Files in another float type (`.fp16.safetensors`) may be next to the plain one.
    let plain = format!("{}{}", SHARDS.prefix, SHARDS.suffix);
    let (weights, format) = if listing.has(&plain) && !listing.has(SHARDS.index) {
        open_file(dir, listing, &plain)?
    } else if let [only] = &listing.matching(SHARDS.prefix, SHARDS.suffix)[..]
        && !listing.has(SHARDS.index)
    {
        check_whole(only)?;
        open_file(dir, listing, only)?
    } else if SHARDS.detect(listing).is_some() {
        (in_file_order(safetensors::open(&SHARDS, dir, listing)?), SAFETENSORS)
    } else if PICKLES.detect(listing).is_some() {
        (torch::open(&PICKLES, dir, listing)?, TORCH)
    } else {
        let Some(file) = only_file(listing) else {
            let files = listing.names().iter().filter(|name| has_ending(name)).cloned().collect();
            return Err(Error::SeveralWeights { files });
        };
        check_whole(&file)?;
        open_file(dir, listing, &file)?
    };
    finished(weights, format, name, config, notes)
}

pub(crate) fn check_whole(file: &str) -> Result<(), Error> {
    let stem = ENDINGS.iter().find_map(|ending| file.strip_suffix(ending)).unwrap_or(file);
    let Some((start, count)) = stem.rsplit_once("-of-") else { return Ok(()) };
    let number = start.rsplit('-').next().unwrap_or_default();
    match (number.parse::<u32>(), count.parse::<u32>()) {
        (Ok(number), Ok(count)) if count > 1 => Err(Error::OneShard { file: file.to_owned(), number, count }),
        _ => Ok(()),
    }
}

/// Opens one file by its contents.
pub(crate) fn open_file(dir: &Path, listing: &Listing, file: &str) -> Result<(Weights, &'static str), Error> {
    let mut part = listing.open(dir, file)?;
    let start = part.slice(0..part.n_bytes().min(16))?;
    if torch::is_pickle(&start) {
        return Ok((torch::open_file(dir, listing, file)?, TORCH));
    }
    let tensors = safetensors::parse_with_metadata(&mut part)?;
    if tensors.is_empty() {
        return Err(Error::NoTensors { file: file.to_owned() });
    }
    Ok((in_file_order(Weights { parts: vec![part], tensors, notes: Vec::new() }), SAFETENSORS))
}

/// Sorts tensors into the order in which `safetensors` returns them.
fn in_file_order(mut weights: Weights) -> Weights {
    weights.tensors.sort_by_key(|tensor| (tensor.part, tensor.begin, tensor.end));
    weights
}

fn finished(
    weights: Weights,
    format: &'static str,
    folder_name: String,
    config: Json,
    notes: Vec<String>,
) -> Result<Checkpoint, Error> {
    let Weights { parts, mut tensors, notes: mut more } = weights;
    wrappers::unwrap(&mut tensors, &parts, &mut more)?;
    Ok(Checkpoint {
        warnings: Vec::new(),
        folder_name,
        format,
        config,
        generation_config: None,
        files: Vec::new(),
        card: None,
        notes: [notes, more].concat(),
        parts,
        tensors: tensors.into(),
        method: None,
        settled: false,
    })
}

impl Checkpoint {
    /// Decodes the quantized tensors of a diffusion model, written by ComfyUI and its tools. In a file
    /// without scales, 8-bit floats are values.
    ///
    /// # Errors
    /// [`Error::MethodNotRead`], [`Error::CodesWithoutScales`], and errors of invalid codes and scales.
    pub fn decode_diffusion(mut self) -> Result<Checkpoint, Error> {
        let (method, Decoded { tensors, notes }) =
            methods::decode_diffusion(&self.config, &self.parts, &self.tensors)?;
        (self.method, self.settled) = (method, true);
        self.tensors = Tensors::from(tensors);
        self.notes.extend(notes);
        Ok(self)
    }

    /// Paths of the weights files of a checkpoint that [`open_diffusion`] has opened at `path`.
    pub fn diffusion_paths(&self, path: &Path) -> Vec<PathBuf> {
        if path.is_file() {
            return vec![path.to_owned()];
        }
        let dirs = [path.to_owned()].into_iter().chain(MODELS.iter().map(|model| path.join(model)));
        let find = |file: &str| dirs.clone().map(|dir| dir.join(file)).find(|path| path.is_file());
        self.parts.iter().filter_map(|part| find(&part.file)).collect()
    }
}

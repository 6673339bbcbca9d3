//! Why a checkpoint has no layout.

use std::collections::{BTreeMap, BTreeSet};

use gguf_container::MAX_TENSOR_NAME_BYTES;
use gguf_types::{Fields as _, Problem, Shape, ShapeError, Words, counted, list_names, words};
use serde_json::Value as Json;

use gguf_tokenizer::huggingface::VocabError;

/// The file that messages name if no other is given.
const CONFIG: &str = "config.json";

/// Why a checkpoint cannot be resolved.
#[derive(Debug, thiserror::Error, gguf_types::Fields)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum ArchError {
    /// No row of [`crate::Families::arches`] has the class that the config names.
    #[error("unknown architecture `{class}`; nearest known: {}{}", nearest.join(", "), places(by_tensors, *n_tensors))]
    #[fact(file = "config.json", key = "architectures", expected = nearest, found = class)]
    UnknownClass {
        /// The class as the config names it.
        class: String,
        /// Known classes with the most similar names, nearest first.
        nearest: Vec<&'static str>,
        /// Architectures that have a place for the most of the checkpoint's tensors, and for how
        /// many; the best first.
        by_tensors: Vec<(&'static str, usize)>,
        n_tensors: usize,
    },
    /// No row of [`crate::Families::projectors`] has the class that the config names.
    #[error("class `{class}` does not have a projector; nearest classes with a projector: {}", nearest.join(", "))]
    #[fact(file = "config.json", key = "architectures", expected = nearest, found = class)]
    NoProjector {
        /// The class as the config names it.
        class: String,
        /// Known classes with the most similar names, nearest first.
        nearest: Vec<&'static str>,
    },
    /// A checkpoint whose class has a projector and no text model, which is a separate checkpoint.
    #[error("class `{class}` has a projector and no text model")]
    OnlyProjector {
        /// The class as the config names it.
        class: String,
        /// The checkpoint of its text model, if the config names it.
        text_model: Option<String>,
    },
    /// A checkpoint of a class with a projector that contains no tensor of one.
    #[error("none of the {n_tensors} tensors of the checkpoint belongs to projector `{projector}`")]
    EmptyProjector {
        projector: &'static str,
        n_tensors: usize,
        /// A tensor with the name of a tower under an unknown prefix.
        tower: Option<String>,
    },
    /// A tower of images, and no file that says how these are prepared.
    #[error(
        "missing preprocessor_config.json or processor_config.json, which describes how images are prepared"
    )]
    NoPreprocessor,
    /// A person named an architecture that is not there.
    #[error("unknown architecture or class `{name}`; nearest known: {}", nearest.join(", "))]
    #[fact(expected = nearest, found = name)]
    UnknownName {
        /// The name that was given.
        name: String,
        /// Known names that are most similar, nearest first.
        nearest: Vec<&'static str>,
    },
    /// A file of the checkpoint lacks a key that is needed.
    #[error("`{file}`: missing key `{key}`")]
    MissingKey {
        file: &'static str,
        /// The key; inner keys after a dot.
        key: String,
    },
    /// A value of the wrong type or out of range.
    #[error("`{file}`: key `{key}`: expected {expected}, found {found}")]
    BadKey {
        file: &'static str,
        /// The key; inner keys after a dot.
        key: String,
        /// The value as JSON, shortened.
        found: String,
        expected: &'static str,
    },
    /// A pooling module of sentence-transformers that llama.cpp does not have.
    #[error("`{file}`: expected one pooling mode of mean, cls and lasttoken, found {}", gguf_types::list_names(.modes))]
    Pooling {
        /// The config of the module.
        file: String,
        /// The modes that are set.
        modes: Vec<String>,
    },
    /// A config leads to a number that no model can compute with.
    #[error("metadata key `{key}`: expected {expected}, found {found}")]
    BadNumber { key: String, found: f32, expected: &'static str },
    /// A file from before GGUF whose header and tensors, or header and config, are of different models.
    #[error("{field}: expected {expected}, found {found}")]
    BadHeader { field: &'static str, found: u64, expected: String },
    /// Weights that some other program has quantized, by a method that is not supported.
    #[error("`config.json`: weights quantized by `{method}` are not supported")]
    Prequantized { method: String },
    /// A checkpoint that has the class of an architecture and is something else.
    #[error("architecture `{arch}`: {reason}")]
    NotAsThis {
        /// The architecture of the class.
        arch: &'static str,
        reason: &'static str,
    },
    /// A tensor that a format of another runtime cannot store.
    #[error("{format}: `{tensor}` {reason}")]
    NotHeld {
        format: &'static str,
        /// The tensor's name in the checkpoint.
        tensor: &'static str,
        reason: &'static str,
    },
    /// A draft without the model that it drafts for.
    #[error("architecture `{arch}`: a draft model needs the tokenizer and sizes of its target model")]
    NoTarget { arch: &'static str },
    /// A table of ids of the target's tokens that are not, or not all different.
    #[error("tensor `{name}`: {reason}")]
    #[fact(tensor = name)]
    BadIds { name: String, reason: String },
    /// MTP layers are to be left out, or to be the only ones, but the model has no such layers.
    #[error("{subject} layers for multi-token prediction")]
    NoPrediction { subject: String },
    /// Dense modules were asked for that the file cannot store.
    #[error("dense modules: {subject} not supported by this architecture")]
    DenseModules {
        /// The tensors or the activation.
        subject: String,
    },
    /// Tensors that the architecture needs are not in the checkpoint.
    #[error("{}: {}", counted(names.len(), "missing tensor"), list_names(names))]
    #[fact(tensor = names)]
    MissingTensors {
        /// Their names as the checkpoint would spell them.
        names: Vec<String>,
    },
    /// Some tensors of an MTP layer are in the checkpoint, and others are not.
    #[error("incomplete MTP layer: {}: {}", counted(names.len(), "missing tensor"), list_names(names))]
    IncompletePrediction {
        /// Names of the missing tensors as the checkpoint would spell them.
        names: Vec<String>,
    },
    /// The checkpoint contains tensors that the architecture has no place for.
    #[error("{} not used by this architecture: {}", counted(names.len(), "tensor"), list_names(names))]
    #[fact(tensor = names)]
    UnusedTensors {
        names: Vec<String>,
        /// Key of the config that leaves some layers without experts.
        dense: Option<&'static str>,
    },
    /// Pairs of an adapter, or weights that one wraps, among those of a model.
    #[error("the checkpoint contains an unmerged adapter (LoRA or another PEFT method): {}: {}", counted(names.len(), "tensor"), list_names(names))]
    UnmergedAdapter { names: Vec<String> },
    /// More layers than the config counts.
    #[error(
        "the weights have layers 0 to {last}, but `{key}` in config.json is {n_layers} ({})", counted(*n_tensors, "unused \
            tensor")
    )]
    MoreLayers {
        /// The key of the number of layers.
        key: &'static str,
        /// Tensors of the layers beyond.
        n_tensors: usize,
        last: u64,
        /// The layers that the config counts.
        n_layers: u64,
        /// The first layer without tensors.
        gap: Option<u64>,
    },
    /// A model that scores or classifies, of a family whose classifiers have no place in a file.
    #[error("{}a classifier or reward model, whose head is not converted{}", class_of(class.as_deref()), heads_of(heads))]
    Classifier {
        /// The class as the config names it, if it is what gives it away.
        class: Option<String>,
        /// The tensors of the head.
        heads: Vec<String>,
    },
    /// A config that names no class, with a `model_type` that is missing or unknown.
    #[error("`config.json`: missing key `architectures`{}", places(by_tensors, *n_tensors))]
    NoClass { by_tensors: Vec<(&'static str, usize)>, n_tensors: usize },
    /// Two tensors of the checkpoint would become the same output tensor.
    #[error("tensors `{first}` and `{second}` both become `{output}`")]
    #[fact(tensor = output)]
    SameOutput { output: String, first: String, second: String },
    /// Tensors of an adapter that are not halves of pairs.
    #[error("{} of the adapter without the other half of a LoRA pair: {}", counted(names.len(), "tensor"), list_names(names))]
    #[fact(tensor = names)]
    NotLora { names: Vec<String> },
    /// Pairs of an adapter for matrices that the base model does not have.
    #[error("{} without a match in the base model: {}", counted(names.len(), "tensor"), list_names(names))]
    NotInBase {
        /// The names of the adapter's tensors.
        names: Vec<String>,
    },
    /// An adapter of a matrix that the file does not have.
    #[error("adapter of `{name}`: {reason}")]
    #[fact(tensor = name)]
    AdapterTarget {
        /// The matrix in the base model.
        name: String,
        reason: &'static str,
    },
    /// A tensor's shape contradicts the config.
    #[error("tensor `{name}`: expected {expected}, found shape {found}")]
    #[fact(tensor = name, found = format_args!("{:?}", found.dims()))]
    TensorShape {
        /// Its name in the checkpoint.
        name: String,
        found: Shape,
        /// Shape required by the config or other tensors.
        expected: String,
    },
    /// A file whose tensors are not those of a known diffusion model.
    #[error(
        "{}not a known diffusion model{}{}",
        class_of(class.as_deref()),
        looks_like.map_or_else(String::new, |kind| format!("; the names look like {kind}")),
        nearest_rows(nearest, *n_tensors)
    )]
    UnknownDiffusion {
        class: Option<String>,
        /// The likely kind of file.
        looks_like: Option<&'static str>,
        /// Similar architectures, the best first, with the number of names that are present, and that of all that recognize it.
        nearest: Vec<(&'static str, usize, usize)>,
        n_tensors: usize,
    },
    /// A class of another diffusion model than the one that the tensors look like.
    #[error("`{class}`: not a known diffusion model; its tensors look like `{architecture}` ({models})")]
    OtherDiffusion {
        class: String,
        /// The architecture of the tensors.
        architecture: String,
        models: &'static str,
    },
    /// A name that is longer than files allow.
    #[error("tensor `{name}`: expected a name of at most {MAX_TENSOR_NAME_BYTES} bytes, found {}", name.len())]
    LongName { name: String },
    /// A diffusion model in a layout that its files do not have.
    #[error("`{architecture}` ({models}) in the layout of diffusers, recognized by tensor `{tensor}`")]
    OtherLayout { architecture: &'static str, models: &'static str, tensor: &'static str },
    /// A shape that cannot be made.
    #[error("tensor `{name}`: {source}")]
    #[fact(tensor = name)]
    Shape { name: String, source: ShapeError },
    /// The tokenizer files.
    #[error(transparent)]
    Vocab(#[from] VocabError),
}

impl ArchError {
    /// Hints that are the same for every error of a variant.
    fn fixed_hint(&self) -> Option<&'static str> {
        Some(match self {
            ArchError::UnknownClass { class, .. } if class.starts_with("CLIPText") => {
                "ComfyUI and stable-diffusion.cpp read the text encoders of CLIP as safetensors"
            }
            ArchError::NoPreprocessor => "copy it from the base model: a fine-tune uses the same file",
            ArchError::EmptyProjector { tower: None, .. } => "copy the missing part from the base model",
            ArchError::MissingTensors { names } if is_other_class(names) && !all_experts(names) => {
                "every layer lacks them: `architectures` in config.json may name the class of another model"
            }
            ArchError::NotLora { .. } => {
                "an adapter file cannot hold whole weights (`modules_to_save`, added tokens): merge \
                    the adapter into its base model"
            }
            ArchError::NotInBase { .. } => {
                "use the base model that the adapter was trained on; `base_model_name_or_path` in \
                    adapter_config.json names it"
            }
            ArchError::UnusedTensors { names, dense: None, .. } => {
                if all_experts(names) {
                    "config.json may state too few experts"
                } else if names.iter().any(|name| name.contains(".eh_proj.")) {
                    "set `num_nextn_predict_layers` in config.json to the number of MTP layers"
                } else {
                    "the checkpoint may have a different architecture than config.json states"
                }
            }
            ArchError::UnmergedAdapter { .. } => {
                "call `merge_and_unload()` on the PEFT model and save the result, or convert the base \
                    model and the adapter separately"
            }
            ArchError::Classifier { .. } => {
                "to use the model without its head, convert the language model that it was trained from"
            }
            ArchError::BadNumber { .. } => {
                "the value is derived from config.json, which may contain an error"
            }
            ArchError::OtherLayout { .. } => "use the checkpoint in its original layout, as ComfyUI loads it",
            ArchError::UnknownDiffusion { looks_like: Some(kind), .. } if kind.ends_with("adapter") => {
                "merge it while its model is converted, or load it as it is"
            }
            _ => return None,
        })
    }
}

impl Problem for ArchError {
    fn hint(&self) -> Option<Words> {
        if let Some(hint) = self.fixed_hint() {
            return Some(hint.into());
        }
        Some(match self {
            ArchError::NotAsThis { arch, .. } => {
                words!("to convert it as a model that generates text, use `[-arch-as {}]`", arch)
            }
            ArchError::OtherDiffusion { architecture, .. } => {
                words!("to convert it by the rules of that model, use `[-arch-as {}]`", architecture)
            }
            ArchError::NoTarget { .. } => {
                words!("pass the folder of its target model with `[-target-model-dir DIR]`")
            }
            ArchError::UnknownClass { by_tensors, .. } | ArchError::NoClass { by_tensors, .. } => {
                let (name, _) = by_tensors.first()?;
                words!("try `[-arch-as {}]`; the tensor names match, but the computation may differ", name)
            }
            ArchError::OnlyProjector { text_model, .. } => {
                let text_model = text_model.as_deref().unwrap_or("its text model");
                format!("convert {text_model}, and convert this checkpoint as a projector").into()
            }
            ArchError::EmptyProjector { tower: Some(name), .. } => words!(
                "`{}` looks like a part of a tower under an unknown prefix; rename these tensors",
                name
            ),
            ArchError::MissingTensors { names } => {
                let count = if all_experts(names) { "the number of experts" } else { "`num_hidden_layers`" };
                format!("a shard may be missing, or {count} in config.json may be too large").into()
            }
            ArchError::IncompletePrediction { .. } => {
                words!("download the missing shard, or omit the MTP layer with `[-no-mtp]`")
            }
            ArchError::AdapterTarget { .. } => words!(
                "to merge it, use `[gguf-convert BASE -lora ADAPTER]`; add [-with-mmproj] for vision towers"
            ),
            ArchError::UnusedTensors { dense: Some(key), .. } => words!(
                "`{}` in config.json leaves some layers without experts, which llama.cpp does not support here",
                key
            ),
            ArchError::MoreLayers { gap: Some(layer), .. } => {
                format!("layer {layer} has no tensors; number the layers of the checkpoint without gaps")
                    .into()
            }
            ArchError::MoreLayers { key, last, .. } => {
                let n_layers = last.saturating_add(1);
                format!("if the model was made by stacking layers, set `{key}` to {n_layers}").into()
            }
            ArchError::UnknownDiffusion { looks_like: Some(kind), .. } if *kind != "a language model" => {
                words!(
                    "load it as it is; if a program reads it as GGUF, name its architecture with `[-arch-as NAME]`"
                )
            }
            ArchError::UnknownDiffusion { .. } => words!(
                "to convert an image, video or sound model by general rules, name its architecture with `[-arch-as NAME]`; a language model needs the folder with its config"
            ),
            _ => return self.inner()?.hint(),
        })
    }
}

/// True if tensors with the same few names are missing in every layer.
fn is_other_class(names: &[String]) -> bool {
    let split = |name: &String| {
        let mut parts = name.split('.');
        let prefix_len =
            parts.by_ref().take_while(|part| part.parse::<u64>().is_err()).map(|part| part.len() + 1).sum();
        let layer: u64 = name.get(prefix_len..)?.split('.').next()?.parse().ok()?;
        Some((layer, parts.collect::<Vec<_>>().join(".")))
    };
    let mut of_layers: BTreeMap<u64, BTreeSet<String>> = BTreeMap::new();
    for (layer, rest) in names.iter().filter_map(split) {
        of_layers.entry(layer).or_default().insert(rest);
    }
    let first = of_layers.get(&0);
    of_layers.len() > 1
        && of_layers.values().map(BTreeSet::len).sum::<usize>() == names.len()
        && of_layers.values().all(|rest| Some(rest) == first)
}

/// True if all tensors belong to experts.
fn all_experts(names: &[String]) -> bool {
    names.iter().all(|name| name.contains(".experts."))
}

/// A [`ArchError::BadKey`] of config.json.
pub fn bad(key: &str, found: &Json, expected: &'static str) -> ArchError {
    bad_in(CONFIG, key, found, expected)
}

/// A [`ArchError::BadKey`] with the value shortened.
pub fn bad_in(file: &'static str, key: &str, found: &Json, expected: &'static str) -> ArchError {
    let mut found = found.to_string();
    if let Some((end, _)) = found.char_indices().nth(40) {
        found.truncate(end);
        found.push_str("...");
    }
    ArchError::BadKey { file, key: key.into(), found, expected }
}

/// A [`ArchError::MissingKey`] of the tokenizer's added tokens.
pub fn missing_token(content: &str) -> ArchError {
    missing_in("tokenizer.json", &format!("added_tokens.{content}"))
}

/// A [`ArchError::MissingKey`] of another file.
pub fn missing_in(file: &'static str, key: &str) -> ArchError {
    ArchError::MissingKey { file, key: key.into() }
}

/// A [`ArchError::MissingKey`] of config.json.
pub fn missing(key: &str) -> ArchError {
    ArchError::MissingKey { file: CONFIG, key: key.into() }
}

/// The shape of tensor `name` in the file.
///
/// # Errors
///
/// [`ArchError::Shape`] for dimensions that ggml has no tensor of.
pub fn shape_of(name: &str, dims: &[u64]) -> Result<Shape, ArchError> {
    Shape::new(dims).map_err(|source| ArchError::Shape { name: name.to_owned(), source })
}

/// The class at the start of a message.
fn class_of(class: Option<&str>) -> String {
    class.map_or_else(String::new, |class| format!("`{class}`: "))
}

/// The tensors of a head at the end of a message.
fn heads_of(heads: &[String]) -> String {
    if heads.is_empty() { String::new() } else { format!(": {}", list_names(heads)) }
}

/// Similar architectures of diffusion models, for the message.
fn nearest_rows(nearest: &[(&str, usize, usize)], n_tensors: usize) -> String {
    let each: Vec<String> =
        nearest.iter().map(|(name, n, of)| format!("`{name}` ({n} of {of} names)")).collect();
    if each.is_empty() {
        format!(" ({})", counted(n_tensors, "tensor"))
    } else {
        format!("; nearest: {}", each.join(", "))
    }
}

/// Number of tensors of a checkpoint that match the nearest architectures.
fn places(nearest: &[(&str, usize)], n_tensors: usize) -> String {
    if nearest.is_empty() {
        return String::new();
    }
    let each: Vec<String> =
        nearest.iter().map(|(name, n)| format!("{n} of {n_tensors} in `{name}`")).collect();
    format!("; matching tensor names: {}", each.join(", "))
}

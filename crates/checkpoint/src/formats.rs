//! The table of input formats.

use std::path::Path;

use serde_json::Value as Json;

use crate::{Error, FOREIGN, Foreign, Listing, Weights, safetensors, shards::Shards, torch};

pub(crate) type Open = fn(&Path, &Listing) -> Result<Weights, Error>;

/// One input format.
#[derive(Debug, Clone, Copy)]
pub struct Format {
    /// Name for display.
    pub name: &'static str,
    /// File patterns for display.
    pub files: &'static str,
    /// First matching file in a folder.
    pub(crate) detect: fn(&Listing) -> Option<String>,
    /// The reader; `None` if the format is known but not supported yet.
    pub(crate) open: Option<Open>,
    /// For a layout with `params.json` instead of `config.json`: the class name that architectures know.
    pub(crate) class: Option<fn(&Json) -> &'static str>,
}

const MODEL_SHARDS: Shards =
    Shards { prefix: "model", suffix: ".safetensors", index: "model.safetensors.index.json" };
/// Weights saved by transformers before safetensors.
const MODEL_PICKLES: Shards =
    Shards { prefix: "pytorch_model", suffix: ".bin", index: "pytorch_model.bin.index.json" };

/// Name of the format selected by [`Folder::mistral_format`](crate::Folder::mistral_format).
const MISTRAL: &str = "Mistral's own layout of safetensors";
const MISTRAL_SHARDS: Shards =
    Shards { prefix: "consolidated", suffix: ".safetensors", index: "consolidated.safetensors.index.json" };

/// Weights of AutoGPTQ and GPTQModel, whose names contain bits and group size (`gptq_model-4bit-128g.safetensors`).
const GPTQ_SHARDS: Shards =
    Shards { prefix: "gptq_model-", suffix: ".safetensors", index: "gptq_model.safetensors.index.json" };
const GPTQ_PICKLES: Shards =
    Shards { prefix: "gptq_model-", suffix: ".bin", index: "gptq_model.bin.index.json" };

impl Format {
    /// True if this format is supported, not only recognized.
    pub fn is_read(&self) -> bool {
        self.open.is_some()
    }
}

/// All recognized formats. The first that a folder matches is used.
pub const FORMATS: &[Format] = &[
    Format {
        name: "safetensors",
        files: "model*.safetensors",
        detect: |listing| MODEL_SHARDS.detect(listing),
        open: Some(|dir, listing| safetensors::open(&MODEL_SHARDS, dir, listing)),
        class: None,
    },
    Format {
        name: "torch pickles",
        files: "pytorch_model*.bin",
        detect: |listing| MODEL_PICKLES.detect(listing),
        open: Some(|dir, listing| torch::open(&MODEL_PICKLES, dir, listing)),
        class: None,
    },
    Format {
        name: "safetensors as AutoGPTQ names them",
        files: "gptq_model-*.safetensors",
        detect: |listing| GPTQ_SHARDS.detect(listing),
        open: Some(|dir, listing| safetensors::open(&GPTQ_SHARDS, dir, listing)),
        class: None,
    },
    Format {
        name: "torch pickles as AutoGPTQ names them",
        files: "gptq_model-*.bin",
        detect: |listing| GPTQ_PICKLES.detect(listing),
        open: Some(|dir, listing| torch::open(&GPTQ_PICKLES, dir, listing)),
        class: None,
    },
    Format {
        name: MISTRAL,
        files: "consolidated*.safetensors",
        detect: |listing| MISTRAL_SHARDS.detect(listing),
        open: Some(|dir, listing| safetensors::open(&MISTRAL_SHARDS, dir, listing)),
        class: Some(mistral_class),
    },
    Format {
        name: "torch pickles in Meta's layout",
        files: "consolidated.*.pth, consolidated.*.pt",
        detect: torch::meta::detect,
        open: Some(torch::meta::open),
        class: Some(|_| "MetaParams"),
    },
    Format {
        name: "a LoRA adapter",
        files: "adapter_model.*",
        detect: |listing| listing.matching("adapter_model.", "").into_iter().next(),
        open: None,
        class: None,
    },
    Format {
        name: "GGUF",
        files: "*.gguf",
        detect: |listing| listing.matching("", ".gguf").into_iter().next(),
        open: None,
        class: None,
    },
];

/// The folder's first matching format with its reader, and a note about other copies of the weights.
pub(crate) fn detect(
    listing: &Listing,
    mistral: bool,
) -> Result<(&'static Format, Open, Option<String>), Error> {
    let candidates = FORMATS.iter().filter(|format| !mistral || format.name == MISTRAL);
    let mut found: Vec<(&'static Format, String)> =
        candidates.filter_map(|format| Some((format, (format.detect)(listing)?))).collect();
    // An index without its files is a leftover if there are weights of another format.
    let is_index = |file: &str| file.ends_with(".index.json");
    if found.iter().any(|(format, file)| format.is_read() && !is_index(file)) {
        found.retain(|(_, file)| !is_index(file));
    }
    let mut found = found.into_iter();
    let Some((format, file)) = found.next() else {
        for Foreign { name, detect, advice, .. } in FOREIGN {
            if let Some(file) = detect(listing) {
                return Err(Error::Foreign { format: name, file, advice });
            }
        }
        return Err(Error::NoWeights { expected: FORMATS.iter().map(|format| format.files).collect() });
    };
    let Some(open) = format.open else {
        return Err(Error::NotReadYet { format: format.name, file });
    };
    // Adapters and other programs' models in a folder are not copies; a format with a reader may be one.
    let copies = found.filter(|(other, _)| other.is_read() && other.files != format.files);
    let copies: Vec<String> = copies.map(|(other, file)| format!("`{file}` ({})", other.name)).collect();
    let note = (!copies.is_empty())
        .then(|| format!("weights are read from `{file}` ({}); ignored: {}", format.name, copies.join(", ")));
    Ok((format, open, note))
}

/// Class of a `params.json` of Mistral, by the reference's criteria.
///
/// Source: `main` in `convert_hf_to_gguf.py`, `MistralModel.__init__` in `conversion/mistral.py`.
fn mistral_class(params: &Json) -> &'static str {
    let has = |key: &str| params.get(key).is_some_and(|value| !value.is_null());
    match () {
        // Latent attention and experts, like DeepSeek.
        () if has("moe") && (has("q_lora_rank") || has("kv_lora_rank")) => "MistralMoeParams",
        () if has("moe") => "MixtralParams",
        () if has("llama_4_scaling") => "Mistral3Params",
        () => "MistralParams",
    }
}

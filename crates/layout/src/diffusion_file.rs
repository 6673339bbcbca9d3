//! GGUF files of diffusion models, as several programs write them.
//!
//! | writer | `general.architecture` | names |
//! |---|---|---|
//! | convert.py of ComfyUI-GGUF and what follows it | a row of [`Families::diffusion`] | those of the model |
//! | calcuis' programs | `pig`, `cow` | those of the model |
//! | stable-diffusion.cpp | no keys at all | with a prefix for each part, such as `model.diffusion_model.` |
//! | ggufy | a row, or `qwen` for Qwen-Image | those of the model |
//!
//! Sources: `gguf_sd_loader` in `loader.py` of city96/ComfyUI-GGUF@795e451, `src/convert.cpp` and `src/model_loader.cpp` of
//! leejet/stable-diffusion.cpp@97d2990, `ImageArch.zig` of qskousen/ggufy@07c55c0.

use std::collections::HashMap;

use gguf_container::{Metadata, Ranks, Value};
use gguf_types::Shape;

use crate::diffusion::{Diffusion, block_of};
use crate::registry::Families;

/// Architectures of which ComfyUI-GGUF finds the family by names of tensors.
const UNNAMED: &[&str] = &["pig", "cow"];

/// Starts of the keys that a file without an architecture may have.
const PLAIN_KEYS: &[&str] = &["general.", "comfy.", "split.", "quantize.", "gguf_tools."];

/// Prefix of the diffusion model in files that also contain text encoders or a VAE.
const PREFIX: &str = "model.diffusion_model.";

/// Parts of the names of tensors that stable-diffusion.cpp does not convert (`tensor_should_be_converted`), for text encoders, VAEs and
/// models of unknown families.
const KEPT_IN_ANY: &[&str] = &[
    "img_in.",
    "txt_in.",
    "time_in.",
    "vector_in.",
    "guidance_in.",
    "final_layer.",
    "x_embedder.",
    "t_embedder.",
    "y_embedder.",
    "pos_embed",
    "context_embedder.",
    "time_embed.",
    "label_emb.",
    "embedding",
];

/// A GGUF file of a diffusion model, or of parts of a pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiffusionFile {
    /// The model; `None` if no family has such tensors, like in a file of a VAE alone.
    pub row: Option<&'static Diffusion>,
    /// Prefix of the model's tensors; empty without one.
    pub prefix: &'static str,
    /// A name of another layout of the model, which ComfyUI-GGUF refuses.
    pub refused: Option<&'static str>,
    /// The row that the tensors match, whatever `general.architecture` is.
    pub recognized: Option<&'static Diffusion>,
    /// True if the tensors determine the model, because no row has the file's `general.architecture`.
    pub by_tensors: bool,
    /// True for an architecture without a row: only matrices in numbered blocks are quantized.
    pub is_generic: bool,
}

impl DiffusionFile {
    /// The part of a tensor's name that the tables of families have, or `None` for a tensor of another model in the file.
    pub fn own_name<'a>(&self, name: &'a str) -> Option<&'a str> {
        name.strip_prefix(self.prefix)
    }

    /// True for an architecture that ComfyUI-GGUF does not know, although a family has the tensors.
    pub fn is_misnamed(&self, metadata: &Metadata) -> bool {
        let architecture = metadata.get("general.architecture").and_then(Value::as_str);
        let is_unknown = architecture.is_some_and(|architecture| !UNNAMED.contains(&architecture));
        is_unknown && self.by_tensors && self.row.is_some()
    }

    /// True for a tensor that ComfyUI-GGUF decodes; tensors of other models in the file are not judged.
    pub fn is_decoded(&self, name: &str, n_dims: usize) -> bool {
        let row = self.row.unwrap_or_else(Diffusion::generic);
        self.own_name(name).is_none_or(|name| row.is_decoded(name, n_dims))
    }

    /// True for a tensor that is never quantized.
    pub fn keeps_precision(&self, name: &str) -> bool {
        if self.is_generic {
            return block_of(name).is_none();
        }
        let own = self.own_name(name).zip(self.row);
        let by_row = own.is_some_and(|(name, row)| row.keeps_precision(name));
        let in_any = own.is_none() || self.refused.is_some();
        by_row || in_any && KEPT_IN_ANY.iter().any(|part| name.contains(part))
    }
}

impl Families {
    /// Facts of a file of a diffusion model; `None` for a text model.
    ///
    /// A file without an architecture is one if it has no keys of other kinds of files. An unknown architecture without a count of
    /// blocks is one if a family has its tensors, or if it has numbered blocks, no tokenizer and no keys that begin with its name.
    pub fn diffusion_file<'a>(
        &self,
        metadata: &Metadata,
        tensors: impl IntoIterator<Item = (&'a str, Shape)>,
    ) -> Option<DiffusionFile> {
        let architecture = match metadata.get("general.architecture") {
            None => "",
            Some(value) => value.as_str()?,
        };
        // A text model or an adapter that lost its architecture has other keys.
        let is_plain = |key: &str| PLAIN_KEYS.iter().any(|start| key.starts_with(start));
        let is_unnamed = match architecture {
            "" => metadata.iter().all(|(key, _)| is_plain(key)),
            _ => UNNAMED.contains(&architecture),
        };
        let named = self.diffusion(architecture);
        let counts_blocks = ["block_count", "encoder.block_count"]
            .iter()
            .any(|key| metadata.contains(&format!("{architecture}.{key}")));
        // The reference's files of other kinds count no blocks either.
        let is_other =
            metadata.get("general.type").and_then(Value::as_str).is_some_and(|kind| kind != "model");
        if named.is_none() && (is_other || !is_unnamed && (counts_blocks || architecture == "clip")) {
            return None;
        }
        let outermost: HashMap<&str, u64> = tensors
            .into_iter()
            .map(|(name, shape)| (name, shape.dims().last().copied().unwrap_or(1)))
            .collect();
        let prefix = if outermost.keys().any(|name| name.starts_with(PREFIX)) { PREFIX } else { "" };
        let found = self.detect_diffusion(|name| outermost.get(format!("{prefix}{name}").as_str()).copied());
        let is_generic = found.is_none() && named.is_none() && !is_unnamed;
        if is_generic {
            let start = format!("{architecture}.");
            let is_text = |key: &str| key.starts_with(&start) || key.starts_with("tokenizer.");
            let is_known = self.arches.iter().any(|arch| arch.written.unwrap_or(arch.name) == architecture);
            let has_blocks = || outermost.keys().any(|name| block_of(name).is_some());
            if is_known || metadata.iter().any(|(key, _)| is_text(key)) || !has_blocks() {
                return None;
            }
        }
        let recognized = found.map(|found| found.row);
        let found = found.filter(|found| named.is_none_or(|named| named.name == found.row.name));
        Some(DiffusionFile {
            row: found.map(|found| found.row).or(named),
            prefix,
            refused: found.and_then(|found| found.refused),
            recognized,
            by_tensors: named.is_none(),
            is_generic,
        })
    }

    /// Ranks in files that are made of this one. Diffusion models and files without an architecture keep trailing ones: (1, 6, n) and (6, n) differ
    /// in ComfyUI and diffusers. Text models lose them, like the reference.
    pub fn ranks<'a>(
        &self,
        metadata: &Metadata,
        tensors: impl IntoIterator<Item = (&'a str, Shape)>,
    ) -> Ranks {
        if self.diffusion_file(metadata, tensors).is_some() { Ranks::Stored } else { Ranks::Ggml }
    }
}

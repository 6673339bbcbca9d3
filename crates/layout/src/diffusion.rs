//! Diffusion models: the facts that a file for ComfyUI-GGUF depends on.
//!
//! Such a file has the tensors of the checkpoint under their own names and three keys. A family states how its
//! tensors are recognized and which tensors keep a high precision.
//!
//! Source: `ModelTemplate` and `detect_arch` in `tools/convert.py`, and `tools/lcpp.patch`, of city96/ComfyUI-GGUF@795e451.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use gguf_types::Shape;
use serde::Deserialize;

use crate::adapter_names::AdapterName;

/// Architectures that the loader of ComfyUI-GGUF knows.
///
/// Source: `IMG_ARCH_LIST` in `loader.py` of city96/ComfyUI-GGUF@795e451.
const LOADED: [&str; 12] = [
    "flux",
    "sd1",
    "sdxl",
    "sd3",
    "aura",
    "hidream",
    "cosmos",
    "ltxv",
    "hyvid",
    "wan",
    "lumina2",
    "qwen_image",
];

/// Tensors of at most this many elements stay F32.
const SMALL_ELEMS: u64 = 1024;

/// Ends of the names of lists of blocks.
const LISTS: &[&str] = &["blocks", "layers", "refiner"];

/// Facts of one diffusion architecture, which [`read_diffusion`](crate::read_diffusion) reads from a file. Lists of parts match
/// anywhere in a name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Diffusion {
    /// `general.architecture` of its files. Two rows may share it (LTX-Video and LTX-2).
    #[serde(rename = "architecture")]
    pub name: String,
    /// Models of this row, for messages and documentation.
    pub models: String,
    /// Alternatives; all names of one are present in a checkpoint of this row. Empty if the class determines the row.
    pub detect: Vec<Vec<String>>,
    /// Tensors with their outermost dimension, which distinguish rows with the same names.
    pub extents: BTreeMap<String, u64>,
    /// Names of another layout of the same model, which files do not have.
    pub refused: Vec<String>,
    /// Parts of the names of tensors that are left out of files.
    pub ignored: Vec<String>,
    /// Parts of the names of weights that ComfyUI keeps as bare parameters: they stay F32 if the source is f32 or bf16.
    pub kept_f32: Vec<String>,
    /// Parts of the names of tensors that are never quantized.
    pub unquantized: Vec<String>,
    /// Whole names of tensors that are never quantized.
    pub unquantized_names: Vec<String>,
    /// True if tensors outside of numbered blocks are never quantized either.
    pub only_blocks: bool,
    /// True if tensors are reshaped to rows of 256 elements, with the original shape in a key.
    pub reshapes: bool,
    /// True if the model has tensors of five dimensions.
    pub five_dims: bool,
    /// Parts of the names of tensors with this number of dimensions in files, even if the outermost is 1.
    pub rank: BTreeMap<String, usize>,
    /// True if programs need the entry `config` of `__metadata__`.
    pub needs_config: bool,
    /// Alternative parts of the names of each first and last layer; every model has a tensor with one.
    pub ends: Vec<Vec<String>>,
    /// First parts of the names of further tensors of released models, see [`Diffusion::knows_part`].
    pub parts: Vec<String>,
    /// True if the blocks of a list have different tensors.
    pub uneven_blocks: bool,
    /// Class names in `config.json` of models of this row.
    pub classes: Vec<String>,
    /// Names of modules in other layouts, see [`adapter_names`](crate::adapter_names).
    pub modules: Vec<AdapterName>,
    /// Names of modules inside those of `modules`.
    pub inner_modules: Vec<AdapterName>,
    /// Whole names of the other tensors in diffusers' layout, and of tensors that have the same name in both. Empty if that
    /// layout is not read.
    pub tensors: Vec<AdapterName>,
}

/// A tensor of a checkpoint of a diffusion model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiffusionSource {
    /// Its name.
    pub name: String,
    /// Its dimensions as torch counts them, row length last.
    pub shape: Vec<u64>,
    /// The name of its type (`F32`, `BF16`).
    pub dtype: &'static str,
}

/// The row of a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DetectedDiffusion {
    /// The row.
    pub row: &'static Diffusion,
    /// The name of another layout that the checkpoint has, which makes its tensors unusable as they are.
    pub refused: Option<&'static str>,
}

impl Diffusion {
    /// The row of a model that no family has: general rules apply.
    pub fn generic() -> &'static Diffusion {
        static GENERIC: LazyLock<Diffusion> =
            LazyLock::new(|| Diffusion { models: "no known model".to_owned(), ..Diffusion::default() });
        &GENERIC
    }

    /// True if the loader of ComfyUI-GGUF knows the architecture.
    pub fn loads(&self) -> bool {
        LOADED.contains(&self.name.as_str())
    }

    /// True if its successor knows it.
    ///
    /// Source: `IMG_ARCH_LIST` in `loader.py` of molbal/ComfyUI-GGUF@07700e1.
    pub fn loads_in_successor(&self) -> bool {
        const ALSO: [&str; 7] = [
            "ltxv_upscaler",
            "qwen_image21",
            "ideogram",
            "krea2",
            "minimax_h3",
            "minimax_h3_vae",
            "minimax_music3",
        ];
        self.loads() || ALSO.contains(&self.name.as_str())
    }

    /// Names of modules in other layouts, in the order in which they apply.
    pub fn stages(&self) -> [&[AdapterName]; 2] {
        [&self.modules, &self.inner_modules]
    }

    /// True for a tensor that files do not have.
    pub fn ignores(&self, name: &str) -> bool {
        self.ignored.iter().any(|part| name.contains(part))
    }

    /// True for a weight that ComfyUI keeps as a bare parameter.
    pub fn keeps_f32(&self, name: &str) -> bool {
        self.kept_f32.iter().any(|part| name.contains(part))
    }

    /// True for a tensor that files have in F32 if the checkpoint has it in f32 or bf16.
    pub fn is_small(&self, name: &str, shape: &Shape) -> bool {
        shape.n_dims() == 1 || shape.n_elems() <= SMALL_ELEMS || self.keeps_f32(name)
    }

    /// True for a tensor that ComfyUI-GGUF decodes: a weight of a linear layer, an embedding or a two-dimensional convolution.
    /// All others are copied as they are stored, so only F32 and F16 work.
    ///
    /// Source: `GGMLOps` in `ops.py` of city96/ComfyUI-GGUF@795e451.
    pub fn is_decoded(&self, name: &str, n_dims: usize) -> bool {
        name.ends_with(".weight") && matches!(n_dims, 2 | 4) && !self.keeps_f32(name)
    }

    /// True for a tensor that is never quantized.
    pub fn keeps_precision(&self, name: &str) -> bool {
        let mut parts = self.unquantized.iter();
        self.unquantized_names.iter().any(|whole| whole == name)
            || self.keeps_f32(name)
            || self.only_blocks && block_of(name).is_none()
            || parts.any(|part| name.contains(part))
    }

    /// Number of dimensions that a tensor has in files, even if the outermost is 1.
    pub fn rank_of(&self, name: &str) -> Option<usize> {
        self.rank.iter().find(|(part, _)| name.contains(part.as_str())).map(|(_, n_dims)| *n_dims)
    }

    /// True for the first part of the names of tensors that the tables of the row have.
    pub fn knows_part(&self, part: &str) -> bool {
        let modules = self.stages().into_iter().flatten().chain(&self.tensors);
        let names = modules.map(|name| &name.tensor).chain(self.detect.iter().flatten());
        let lists = [&self.unquantized, &self.unquantized_names, &self.kept_f32, &self.ignored, &self.parts];
        let parts = lists.into_iter().chain(&self.ends).flatten();
        names.chain(parts).any(|name| name.split('.').next() == Some(part))
    }

    /// True if a checkpoint has all names of one alternative and the extents. `outermost` returns the outermost dimension
    /// of a tensor.
    pub(crate) fn matches(&self, outermost: &impl Fn(&str) -> Option<u64>) -> bool {
        let has = |name: &String| outermost(name).is_some();
        let extent = |(name, extent): (&String, &u64)| outermost(name) == Some(*extent);
        self.detect.iter().any(|names| names.iter().all(has)) && self.extents.iter().all(extent)
    }
}

/// The first list of blocks in the name of a tensor, the number of its block, and the rest of the name.
pub(crate) fn block_of(name: &str) -> Option<(&str, u32, &str)> {
    let ends = name.match_indices('.').map(|(at, _)| at);
    // Flux.3 has lists for each stream: `content_mode_blocks.image.0`.
    let is_list = |path: &str| {
        LISTS.iter().any(|list| path.ends_with(list))
            || path.rsplit_once('.').is_some_and(|(parent, _)| parent.ends_with(LISTS[0]))
    };
    ends.filter(|at| is_list(&name[..*at])).find_map(|at| {
        let (number, rest) = name[at + 1..].split_once('.')?;
        Some((&name[..at], number.parse().ok()?, rest))
    })
}

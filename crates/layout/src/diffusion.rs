//! Diffusion models: the facts that a file for ComfyUI-GGUF depends on.
//!
//! Such a file has the tensors of the checkpoint under their own names and three keys. A family states how its
//! tensors are recognized and which tensors keep a high precision.
//!
//! Source: `ModelTemplate` and `detect_arch` in `tools/convert.py`, and `tools/lcpp.patch`, of city96/ComfyUI-GGUF@795e451.

use crate::adapter_names::AdapterName;

/// Facts of one diffusion architecture. Lists of parts match anywhere in a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Diffusion {
    /// `general.architecture` of its files. Two rows may share it (LTX-Video and LTX-2).
    pub name: &'static str,
    /// Models of this row, for messages and documentation.
    pub models: &'static str,
    /// Place in the order of detection; the first row that matches wins.
    pub order: u16,
    /// Alternatives; all names of one are present in a checkpoint of this row.
    pub detect: &'static [&'static [&'static str]],
    /// Tensors with their outermost dimension, which distinguish rows with the same names.
    pub extents: &'static [(&'static str, u64)],
    /// Names of another layout of the same model, which files do not have.
    pub refused: &'static [&'static str],
    /// Parts of the names of tensors that are left out of files.
    pub ignored: &'static [&'static str],
    /// Parts of the names of weights that ComfyUI keeps as bare parameters: they stay F32 if the source is f32 or bf16.
    pub kept_f32: &'static [&'static str],
    /// Parts of the names of tensors that are never quantized.
    pub unquantized: &'static [&'static str],
    /// Whole names of tensors that are never quantized.
    pub unquantized_names: &'static [&'static str],
    /// True if tensors are reshaped to rows of 256 elements, with the original shape in a key.
    pub reshapes: bool,
    /// True if the model has tensors of five dimensions.
    pub five_dims: bool,
    /// Parts of the names of tensors with this number of dimensions in files, even if the outermost is 1.
    pub rank: &'static [(&'static str, usize)],
    /// True if programs need the entry `config` of `__metadata__`.
    pub needs_config: bool,
    /// Alternative parts of the names of each first and last layer; every model has a tensor with one.
    pub ends: &'static [&'static [&'static str]],
    /// First parts of the names of further tensors of released models, see [`Diffusion::knows_part`].
    pub parts: &'static [&'static str],
    /// True if the blocks of a list have different tensors.
    pub uneven_blocks: bool,
    /// Class names in `config.json` of models of this row.
    pub classes: &'static [&'static str],
    /// True if the loader of ComfyUI-GGUF knows `name`.
    pub loads: bool,
    /// Names of modules in other layouts, see [`adapter_names`](crate::adapter_names).
    pub adapter_names: &'static [&'static [AdapterName]],
    /// Whole names of the other tensors in diffusers' layout, and of tensors that have the same name in both. Empty if that
    /// layout is not read.
    pub diffusers_names: &'static [AdapterName],
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
    /// A row without names.
    pub const EMPTY: Diffusion = Diffusion {
        name: "",
        models: "",
        order: 0,
        detect: &[],
        extents: &[],
        refused: &[],
        ignored: &[],
        kept_f32: &[],
        unquantized: &[],
        unquantized_names: &[],
        reshapes: false,
        five_dims: false,
        rank: &[],
        needs_config: false,
        ends: &[],
        parts: &[],
        uneven_blocks: false,
        classes: &[],
        loads: true,
        adapter_names: &[],
        diffusers_names: &[],
    };

    /// The row of a model that no family has: general rules apply.
    pub const GENERIC: Diffusion = Diffusion { models: "no known model", loads: false, ..Diffusion::EMPTY };

    /// True for a tensor that files do not have.
    pub fn ignores(&self, name: &str) -> bool {
        self.ignored.iter().any(|part| name.contains(part))
    }

    /// True for a weight that ComfyUI keeps as a bare parameter.
    pub fn keeps_f32(&self, name: &str) -> bool {
        self.kept_f32.iter().any(|part| name.contains(part))
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
        self.unquantized_names.contains(&name)
            || self.keeps_f32(name)
            || parts.any(|part| name.contains(part))
    }

    /// Number of dimensions that a tensor has in files, even if the outermost is 1.
    pub fn rank_of(&self, name: &str) -> Option<usize> {
        self.rank.iter().find(|(part, _)| name.contains(part)).map(|(_, n_dims)| *n_dims)
    }

    /// True for the first part of the names of tensors that the tables of the row have.
    pub fn knows_part(&self, part: &str) -> bool {
        let modules = self.adapter_names.iter().copied().chain([self.diffusers_names]).flatten();
        let names = modules.map(|name| name.tensor).chain(self.detect.iter().copied().flatten().copied());
        let lists = [self.unquantized, self.unquantized_names, self.kept_f32, self.ignored, self.parts];
        let parts = lists.into_iter().chain(self.ends.iter().copied()).flatten().copied();
        names.chain(parts).any(|name| name.split('.').next() == Some(part))
    }

    /// True if a checkpoint has all names of one alternative and the extents. `outermost` returns the outermost dimension
    /// of a tensor.
    pub(crate) fn matches(&self, outermost: &impl Fn(&str) -> Option<u64>) -> bool {
        let has = |name: &&str| outermost(name).is_some();
        let extent = |(name, extent): &(&str, u64)| outermost(name) == Some(*extent);
        self.detect.iter().any(|names| names.iter().all(has)) && self.extents.iter().all(extent)
    }
}

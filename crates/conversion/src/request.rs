//! Requests to a conversion, in addition to the types.

use std::collections::{BTreeMap, BTreeSet};

use gguf_container::Endian;
use gguf_types::DType;

use crate::{
    Error,
    imatrix::{Imatrix, MissingPolicy},
    key_override::KeyOverride,
    planned::FileOf,
    recipes::{Overrides, Recipe, TensorFacts},
    row_encoder::RowEncoder,
};

/// An importance matrix and the path that it was read from.
#[derive(Debug, Clone, Copy)]
pub struct Importance<'a> {
    /// The matrix after applying filters.
    pub imatrix: &'a Imatrix,
    /// Path as given by the user, for the key that records it. `None` for a matrix that was never a file.
    pub path: Option<&'a str>,
}

/// Division of the output into files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Shards {
    /// One file.
    #[default]
    One,
    /// Like the input, with the same tensors in each shard.
    Kept,
    /// As many files as the limits require. A tensor larger than the limit gets its own file.
    Limited {
        /// Maximum bytes of tensor data per file, padding included.
        max_bytes: Option<u64>,
        /// Maximum number of tensors per file.
        max_tensors: Option<u64>,
    },
}

/// Requests for all outputs of a conversion.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Request<'a> {
    /// Dtypes.
    pub overrides: Overrides,
    /// An importance matrix. [`Overrides::has_imatrix`] follows from it.
    pub importance: Option<Importance<'a>>,
    /// Encoder that improves encoded blocks.
    pub encoder: Option<&'a dyn RowEncoder>,
    /// Treatment of tensors that need importance data but have no entry.
    pub missing: MissingPolicy,
    /// Layers to leave out.
    pub prune: BTreeSet<u32>,
    /// Metadata to set.
    pub keys: Vec<KeyOverride>,
    /// Division of the output into files.
    pub shards: Shards,
    /// Byte order of the output.
    pub endian: Endian,
    /// True if quantized weights may be quantized again.
    pub allow_requantize: bool,
    /// True if tensors and keys of a diffusion model are restored for its loaders.
    pub repair: bool,
    /// Type of matrices that came from 8-bit floats, in files that the reference makes with its converter
    /// only. Overrides take precedence.
    pub fp8_as: Option<DType>,
    /// True if codes of a checkpoint become blocks with the same values, if a ggml type can store them.
    pub repack: bool,
    /// Type that the weights of a checkpoint are rounded to first, like in the reference's two steps.
    pub via: Option<DType>,
}

impl<'a> Request<'a> {
    /// Importance weights of a tensor, (n_experts, row_elems), if any. Its name is that in the input.
    ///
    /// # Errors
    /// [`Error::Imatrix`] for an entry of the wrong size.
    pub(crate) fn weights_of(&self, tensor: &TensorFacts<'_>) -> Result<Option<&'a [f32]>, Error> {
        match self.importance {
            None => Ok(None),
            Some(importance) => importance.imatrix.weights(tensor.name, tensor).map_err(Error::Imatrix),
        }
    }
}

/// An output type.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct OutputRequest {
    /// Its recipe.
    pub recipe: &'static Recipe,
    /// Dtypes decided in advance, by tensor name in the input or by pattern; the rules of the recipe apply to
    /// other tensors.
    pub dtypes: Option<BTreeMap<String, DType>>,
    /// File of the input.
    pub of: FileOf,
}

impl OutputRequest {
    /// Types by the rules of a recipe.
    pub fn by_rules(recipe: &'static Recipe) -> OutputRequest {
        OutputRequest { recipe, dtypes: None, of: FileOf::Model }
    }

    /// Types that were decided in advance.
    pub fn decided(recipe: &'static Recipe, dtypes: BTreeMap<String, DType>) -> OutputRequest {
        OutputRequest { recipe, dtypes: Some(dtypes), of: FileOf::Model }
    }

    /// Types of the projector by the rules of a recipe.
    pub fn projector(recipe: &'static Recipe) -> OutputRequest {
        OutputRequest { of: FileOf::Projector, ..OutputRequest::by_rules(recipe) }
    }
}

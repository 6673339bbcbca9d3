//! What both programs can be asked for beside a file type.

use std::collections::{BTreeMap, BTreeSet};

use tensor::DType;

use crate::{
    KeyOverride,
    imatrix::{Imatrix, MissingPolicy},
    recipes::Overrides,
};

/// An importance matrix and the path that it was read from, as the user gave it.
#[derive(Debug, Clone, Copy)]
pub struct Importance<'a> {
    /// The matrix, filters applied.
    pub imatrix: &'a Imatrix,
    /// Its path, for the keys that tell where weights come from.
    pub path: &'a str,
}

/// Into how many files an output goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Shards {
    /// One.
    #[default]
    One,
    /// As many as the input has, with the same tensors in each.
    Kept,
    /// As many as limits ask for. A tensor larger than the limit has a file of its own.
    Limited {
        /// Bytes of tensor data, padding included.
        max_bytes: Option<u64>,
        /// Tensors.
        max_tensors: Option<u64>,
    },
}

/// What is asked for beside a recipe.
#[derive(Debug, Clone, Default)]
pub struct Request<'a> {
    /// Dtypes.
    pub overrides: Overrides,
    /// An importance matrix. [`Overrides::has_imatrix`] follows from it.
    pub importance: Option<Importance<'a>>,
    /// What happens to a tensor that cannot do without weights and has none.
    pub missing: MissingPolicy,
    /// Layers to leave out.
    pub prune: BTreeSet<u32>,
    /// Metadata to set.
    pub keys: Vec<KeyOverride>,
    /// Into how many files an output goes.
    pub shards: Shards,
    /// Dtypes made out before, by the names in the input: no rule is asked then.
    pub dtypes: Option<BTreeMap<String, DType>>,
}

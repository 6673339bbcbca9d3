//! Tensors of the base model, looked up by the names of adapters.

use std::collections::HashMap;

use gguf_checkpoint::{Tensor, Tensors};
use gguf_layout::{AdapterName, AdapterRows, RowRange, adapter_names, original_names};

/// Prefixes of module names in adapters.
const STARTS: &[&str] = &[
    "base_model.model.",
    "model.diffusion_model.",
    "diffusion_model.",
    "pipe.dit.",
    "transformer.",
    "unet.",
    "lora_unet_",
    "lora_transformer_",
    "lycoris_",
];

/// Names of the modules of a model.
#[derive(Debug, Clone, Copy, Default)]
pub struct ModuleNames<'a> {
    /// Prefix of the checkpoint's tensor names that adapters omit, such as `model.diffusion_model.`.
    pub prefix: &'a str,
    /// Names of other layouts, see [`gguf_layout::adapter_names`].
    pub stages: [&'a [AdapterName]; 2],
}

/// A module of the checkpoint, with the relation of its rows to those of the adapter's module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// Name in the checkpoint, without `.weight` and `.bias`.
    pub module: String,
    pub relation: Relation,
}

/// Relation of a tensor's rows to those of an adapter's module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Relation {
    /// The module covers these rows of the tensor.
    Part(AdapterRows),
    /// The tensor covers these rows of the module.
    Whole(AdapterRows),
}

impl Relation {
    /// Rows of the tensor (n_rows, n_columns), with their places among the rows of the module.
    pub(super) fn ranges(self, n_rows: u64, n_columns: u64) -> Option<Vec<RowRange>> {
        match self {
            Relation::Part(rows) => rows.ranges(n_rows, n_columns),
            Relation::Whole(rows) => rows.joint_ranges(n_rows, n_columns),
        }
    }
}

/// Modules of the checkpoint by all names that adapters use for them.
#[derive(Debug)]
pub(super) struct Places<'a> {
    tensors: &'a Tensors,
    dotted: HashMap<String, Vec<Place>>,
    /// Names by their spelling with `_` instead of `.`.
    flat: HashMap<String, Vec<String>>,
}

impl<'a> Places<'a> {
    pub(super) fn new(tensors: &'a Tensors, names: ModuleNames<'_>) -> Places<'a> {
        let mut places = Places { tensors, dotted: HashMap::new(), flat: HashMap::new() };
        for tensor in tensors {
            let Some(plain) = tensor.name.strip_prefix(names.prefix) else { continue };
            let module = [".weight", ".bias"].iter().find_map(|end| plain.strip_suffix(end)).unwrap_or(plain);
            let own = (module.to_owned(), Relation::Part(AdapterRows::All));
            let parts = adapter_names(&names.stages, module).into_iter();
            let parts = parts.map(|(name, rows)| (name, Relation::Part(rows)));
            let joint = original_names(&names.stages, module).into_iter();
            let joint = joint.map(|(name, rows)| (name, Relation::Whole(rows)));
            for (name, relation) in [own].into_iter().chain(parts).chain(joint) {
                places.add(name, Place { module: format!("{}{module}", names.prefix), relation });
            }
        }
        places
    }

    fn add(&mut self, name: String, place: Place) {
        let flat = name.replace('.', "_");
        let known = self.flat.entry(flat).or_default();
        if !known.contains(&name) {
            known.push(name.clone());
        }
        let places = self.dotted.entry(name).or_default();
        // Weight and bias of a module have the same place.
        if !places.contains(&place) {
            places.push(place);
        }
    }

    /// Modules that an adapter calls `name`: one, or the parts of a joint module.
    pub(super) fn find(&self, name: &str) -> Option<&[Place]> {
        let mut plain = name;
        loop {
            if let Some(places) = self.dotted.get(plain) {
                return Some(places);
            }
            if let Some(names) = self.flat.get(plain).filter(|_| !plain.contains('.')) {
                let mut all = names.iter().map(|name| self.dotted.get(name));
                let first = all.next()??;
                // Ambiguous if names of different modules share the spelling.
                return all.all(|places| places == Some(first)).then_some(first);
            }
            plain = STARTS.iter().find_map(|start| plain.strip_prefix(start))?;
        }
    }

    /// Weight of a module: `MODULE.weight`, or a parameter with the name of the module.
    pub(super) fn weight(&self, place: &Place) -> Option<&'a Tensor> {
        let named = self.tensors.get(&format!("{}.weight", place.module));
        named.or_else(|| self.tensors.get(&place.module))
    }

    pub(super) fn bias(&self, place: &Place) -> Option<&'a Tensor> {
        self.tensors.get(&format!("{}.bias", place.module))
    }
}

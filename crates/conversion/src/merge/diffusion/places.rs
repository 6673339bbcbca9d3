//! Tensors of the base model, looked up by the names of adapters.

use std::collections::HashMap;

use gguf_checkpoint::{Tensor, Tensors};
use gguf_layout::{AdapterName, AdapterRows, adapter_names};

/// Starts of the names of modules, before their names in the model.
const STARTS: &[&str] = &[
    "base_model.model.",
    "model.diffusion_model.",
    "diffusion_model.",
    "transformer.",
    "unet.",
    "lora_unet_",
    "lora_transformer_",
    "lycoris_",
];

/// How a model names its modules.
#[derive(Debug, Clone, Copy, Default)]
pub struct ModuleNames<'a> {
    /// Start of the names of the checkpoint's tensors that adapters leave out, such as `model.diffusion_model.`.
    pub prefix: &'a str,
    /// Names of other layouts, see [`gguf_layout::adapter_names`].
    pub stages: &'static [&'static [AdapterName]],
}

/// A module of the checkpoint, or some of its rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// Name in the checkpoint, without `.weight` and `.bias`.
    pub module: String,
    pub rows: AdapterRows,
}

/// Modules of the checkpoint by all names that adapters have for them.
#[derive(Debug)]
pub(super) struct Places<'a> {
    tensors: &'a Tensors,
    dotted: HashMap<String, Place>,
    /// With `_` for `.`. `None` for a name of several modules.
    flat: HashMap<String, Option<Place>>,
}

impl<'a> Places<'a> {
    pub(super) fn new(tensors: &'a Tensors, names: ModuleNames<'_>) -> Places<'a> {
        let mut places = Places { tensors, dotted: HashMap::new(), flat: HashMap::new() };
        for tensor in tensors {
            let Some(plain) = tensor.name.strip_prefix(names.prefix) else { continue };
            let module = [".weight", ".bias"].iter().find_map(|end| plain.strip_suffix(end)).unwrap_or(plain);
            let own = (module.to_owned(), AdapterRows::All);
            for (name, rows) in [own].into_iter().chain(adapter_names(names.stages, module)) {
                places.add(name, Place { module: format!("{}{module}", names.prefix), rows });
            }
        }
        places
    }

    fn add(&mut self, name: String, place: Place) {
        let flat = name.replace('.', "_");
        // Weight and bias of a module are met both.
        let known = self.flat.entry(flat).or_insert_with(|| Some(place.clone()));
        if known.as_ref() != Some(&place) {
            *known = None;
        }
        self.dotted.insert(name, place);
    }

    /// The module that an adapter calls `name`.
    pub(super) fn find(&self, name: &str) -> Option<&Place> {
        let mut plain = name;
        loop {
            if let Some(place) = self.dotted.get(plain) {
                return Some(place);
            }
            if let Some(place) = self.flat.get(plain).filter(|_| !plain.contains('.')) {
                return place.as_ref();
            }
            plain = STARTS.iter().find_map(|start| plain.strip_prefix(start))?;
        }
    }

    /// The weight of a module: `MODULE.weight`, or a parameter that is called like the module.
    pub(super) fn weight(&self, place: &Place) -> Option<&'a Tensor> {
        let named = self.tensors.get(&format!("{}.weight", place.module));
        named.or_else(|| self.tensors.get(&place.module))
    }

    /// The bias of a module.
    pub(super) fn bias(&self, place: &Place) -> Option<&'a Tensor> {
        self.tensors.get(&format!("{}.bias", place.module))
    }
}

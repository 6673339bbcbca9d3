//! Tensors of an adapter by the module that they change.
//!
//! Names are those of PEFT's `get_peft_model_state_dict` (`utils/save_and_load.py` of peft 0.21.2):
//! `base_model.model.MODULE.lora_A.weight` and so on for pairs, `base_model.model.MODULE.weight` for full
//! weights of `modules_to_save`, `MODULE.base_layer.weight` for an embedding that is saved with its pair.

use std::collections::{HashMap, HashSet};

use gguf_checkpoint::{Dtype, Tensor};
use gguf_layout::TensorNames;

use super::MergeError;

/// Prefix of the base model's names.
pub(super) const PREFIX: &str = "base_model.model.";

#[derive(Debug, Default)]
pub(super) struct Module<'a> {
    pub name: String,
    /// A (rank, in), or (rank, vocabulary) of an embedding.
    pub a: Option<&'a Tensor>,
    /// B (out, rank), or (width, rank) of an embedding.
    pub b: Option<&'a Tensor>,
    /// True if the pair belongs to an embedding, whose rows are the inputs.
    pub is_embedding: bool,
    /// Bias of B (out), added to the module's bias.
    pub bias: Option<&'a Tensor>,
    /// Magnitudes of the rows or columns (out), DoRA.
    pub magnitude: Option<&'a Tensor>,
}

/// A full tensor: module, last component of the name, and the tensor.
pub(super) type Whole<'a> = (String, String, &'a Tensor);

/// Rows of trained tokens: the embedding's module, and the tensor.
pub(super) type Tokens<'a> = (String, &'a Tensor);

/// Name component that PEFT adds for fully saved modules.
const SAVED: &str = ".modules_to_save.";

const TOKENS: &str = ".token_adapter.trainable_tokens_delta";

#[derive(Debug, Default)]
pub(super) struct Sorted<'a> {
    /// Modules in order of first occurrence.
    pub modules: Vec<Module<'a>>,
    pub whole: Vec<Whole<'a>>,
    pub tokens: Vec<Tokens<'a>>,
}

/// Sorts the tensors of an adapter by their names.
pub(super) fn classify(tensors: &[Tensor]) -> Result<Sorted<'_>, MergeError> {
    let Sorted { mut modules, mut whole, mut tokens } = Sorted::default();
    let saved: HashSet<String> = tensors
        .iter()
        .filter(|tensor| tensor.name.contains(SAVED))
        .map(|tensor| tensor.name.replace(SAVED, "."))
        .collect();
    let mut unknown = Vec::new();
    let mut index: HashMap<String, usize> = HashMap::new();
    for tensor in tensors {
        if !matches!(tensor.dtype, Dtype::F32 | Dtype::F16 | Dtype::BF16) {
            return Err(MergeError::Type { tensor: tensor.name.clone(), found: tensor.dtype });
        }
        let name = tensor.name.strip_prefix(PREFIX).unwrap_or(&tensor.name);
        if let Some(module) = name.strip_suffix(TOKENS) {
            tokens.push((module.to_owned(), tensor));
            continue;
        }
        let Some(at) = name.find(".lora_") else {
            // The untrained copy of a fully saved module.
            if name.contains(".original_module.") {
                continue;
            }
            // A newer PEFT saves the trained weights a second time under the plain name.
            if saved.contains(&tensor.name) {
                continue;
            }
            // PEFT's own layers are not part of the base model's names.
            let plain = name.replace(".token_adapter.", ".").replace(".base_layer.", ".").replace(SAVED, ".");
            match plain.rsplit_once('.') {
                Some((module, last)) => whole.push((module.to_owned(), last.to_owned(), tensor)),
                None => unknown.push(tensor.name.clone()),
            }
            continue;
        };
        let (name, part) = (&name[..at], &name[at + 1..]);
        let at = *index.entry(name.to_owned()).or_insert_with(|| {
            modules.push(Module { name: name.to_owned(), ..Module::default() });
            modules.len() - 1
        });
        let module = &mut modules[at];
        let place = match part {
            "lora_A.weight" => &mut module.a,
            "lora_B.weight" => &mut module.b,
            "lora_B.bias" => &mut module.bias,
            "lora_magnitude_vector" | "lora_magnitude_vector.weight" => &mut module.magnitude,
            "lora_embedding_A" | "lora_embedding_B" => {
                module.is_embedding = true;
                if part.ends_with('A') { &mut module.a } else { &mut module.b }
            }
            _ => {
                unknown.push(tensor.name.clone());
                continue;
            }
        };
        // Two spellings of one name.
        if place.replace(tensor).is_some() {
            unknown.push(tensor.name.clone());
        }
    }
    if !unknown.is_empty() {
        return Err(MergeError::Unknown { names: unknown });
    }
    let mut names = modules.iter().flat_map(missing_halves).collect::<Vec<_>>();
    names.sort_unstable();
    if !names.is_empty() {
        return Err(MergeError::Missing { names });
    }
    Ok(Sorted { modules, whole, tokens })
}

/// Missing halves of a module's pair.
fn missing_halves(module: &Module<'_>) -> Vec<String> {
    let half_name = |half: &str| {
        if module.is_embedding {
            format!("{PREFIX}{}.lora_embedding_{half}", module.name)
        } else {
            format!("{PREFIX}{}.lora_{half}.weight", module.name)
        }
    };
    let halves = [("A", module.a), ("B", module.b)];
    halves.iter().filter(|(_, half)| half.is_none()).map(|(name, _)| half_name(name)).collect()
}

/// Names of the base model's tensors, for lookup by the adapter's modules.
#[derive(Debug)]
pub(super) struct Names<'a> {
    tensors: &'a gguf_checkpoint::Tensors,
    names: TensorNames<'a>,
}

impl<'a> Names<'a> {
    pub(super) fn new(tensors: &'a gguf_checkpoint::Tensors) -> Names<'a> {
        Names { tensors, names: TensorNames::new(tensors.iter().map(|tensor| tensor.name.as_str())) }
    }

    /// Finds the base model's tensor `last` of a module, in any spelling of its name.
    pub(super) fn find(&mut self, module: &str, last: &str) -> Option<&'a Tensor> {
        self.names.find(&format!("{module}.{last}")).and_then(|name| self.tensors.get(name))
    }
}

//! Tensors of an adapter by the module that they change.
//!
//! Sources: `LoRAAdapter.load` in `comfy/weight_adapter/lora.py` of ComfyUI (all names of pairs); `convert_lora` functions in `loaders/lora_conversion_utils.py` of diffusers 0.39; `networks/lora_flux.py` of
//! kohya-ss/sd-scripts (names with `_` instead of `.`, `alpha`); `lycoris/modules` of LyCORIS.

use std::collections::HashMap;

use gguf_checkpoint::{Dtype, Tensor};

use super::super::MergeError;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Down,
    Up,
    Mid,
    Bias,
    Alpha,
    Magnitude,
    Diff,
    BiasDiff,
    Rotation,
    Rescale,
    /// A matrix of a LoHa or LoKr, by its name.
    Factor(&'static str),
}

/// Suffixes of names, by purpose. The first match counts.
const ENDS: &[(&str, Part)] = &[
    (".lora_A.weight", Part::Down),
    (".lora_B.weight", Part::Up),
    (".lora_down.weight", Part::Down),
    (".lora_up.weight", Part::Up),
    (".lora.down.weight", Part::Down),
    (".lora.up.weight", Part::Up),
    (".lora_linear_layer.down.weight", Part::Down),
    (".lora_linear_layer.up.weight", Part::Up),
    (".down.weight", Part::Down),
    (".up.weight", Part::Up),
    (".lora_A.default.weight", Part::Down),
    (".lora_B.default.weight", Part::Up),
    (".lora_A", Part::Down),
    (".lora_B", Part::Up),
    (".lora_mid.weight", Part::Mid),
    (".lora_B.bias", Part::Bias),
    (".alpha", Part::Alpha),
    (".dora_scale", Part::Magnitude),
    (".lora_magnitude_vector", Part::Magnitude),
    (".lora_magnitude_vector.weight", Part::Magnitude),
    (".diff", Part::Diff),
    (".w_norm", Part::Diff),
    (".diff_b", Part::BiasDiff),
    (".b_norm", Part::BiasDiff),
    (".oft_blocks", Part::Rotation),
    (".rescale", Part::Rescale),
    (".hada_w1_a", Part::Factor("hada_w1_a")),
    (".hada_w1_b", Part::Factor("hada_w1_b")),
    (".hada_w2_a", Part::Factor("hada_w2_a")),
    (".hada_w2_b", Part::Factor("hada_w2_b")),
    (".hada_t1", Part::Factor("hada_t1")),
    (".hada_t2", Part::Factor("hada_t2")),
    (".lokr_w1", Part::Factor("lokr_w1")),
    (".lokr_w1_a", Part::Factor("lokr_w1_a")),
    (".lokr_w1_b", Part::Factor("lokr_w1_b")),
    (".lokr_w2", Part::Factor("lokr_w2")),
    (".lokr_w2_a", Part::Factor("lokr_w2_a")),
    (".lokr_w2_b", Part::Factor("lokr_w2_b")),
    (".lokr_t2", Part::Factor("lokr_t2")),
];

/// Parts of names that identify other kinds of adapters, with their kind.
const OTHER_KINDS: &[(&str, &str)] = &[
    (".oft_", "OFT that rotates inputs (PEFT), or an old form of OFT,"),
    (".on_input", "IA3"),
    (".a1.weight", "GLoRA"),
    (".b1.weight", "GLoRA"),
    (".reshape_weight", "a LoRA that enlarges tensors of the base model"),
    (".set_weight", "a LoRA that replaces tensors of the base model"),
];

const TEXT_ENCODERS: &[&str] =
    &["lora_te", "text_encoder", "text_encoders.", "cond_stage_model.", "conditioner.", "te1.", "te2."];

#[derive(Debug, Default)]
pub(super) struct Module<'a> {
    pub name: String,
    /// (rank, inputs), followed by the kernel size for convolutions.
    pub down: Option<&'a Tensor>,
    /// (outputs, rank), followed by sizes of 1 for convolutions.
    pub up: Option<&'a Tensor>,
    /// Core (rank, rank, kernel) of a Tucker decomposition; `down` is then (rank, inputs).
    pub mid: Option<&'a Tensor>,
    /// Bias of `up` (outputs).
    pub bias: Option<&'a Tensor>,
    pub alpha: Option<&'a Tensor>,
    /// Magnitudes of outputs (DoRA).
    pub magnitude: Option<&'a Tensor>,
    pub diff: Option<&'a Tensor>,
    pub bias_diff: Option<&'a Tensor>,
    /// Blocks (blocks, N, N) of an OFT, with `alpha` as its constraint.
    pub rotation: Option<&'a Tensor>,
    /// Factors of outputs of an OFT.
    pub rescale: Option<&'a Tensor>,
    /// Matrices of a LoHa or LoKr, by their names.
    pub factors: Vec<(&'static str, &'a Tensor)>,
}

impl<'a> Module<'a> {
    /// A matrix of a LoHa or LoKr.
    pub(super) fn factor(&self, name: &str) -> Option<&'a Tensor> {
        self.factors.iter().find(|(own, _)| *own == name).map(|(_, tensor)| *tensor)
    }

    /// Tensors that change the weight.
    pub(super) fn of_weight(&self) -> impl Iterator<Item = &'a Tensor> {
        let factors = self.factors.iter().map(|(_, tensor)| *tensor);
        let others = [self.down, self.up, self.mid, self.diff, self.rotation, self.rescale];
        others.into_iter().flatten().chain(factors)
    }
}

#[derive(Debug, Default)]
pub(super) struct Sorted<'a> {
    /// Modules in order of first occurrence.
    pub modules: Vec<Module<'a>>,
    /// Number of tensors for text encoders.
    pub n_text: usize,
}

pub(super) fn classify(tensors: &[Tensor]) -> Result<Sorted<'_>, MergeError> {
    let mut sorted = Sorted::default();
    let mut index: HashMap<String, usize> = HashMap::new();
    let mut unknown = Vec::new();
    for tensor in tensors {
        let name = tensor.name.as_str();
        let plain = name.strip_prefix("base_model.model.").unwrap_or(name);
        if TEXT_ENCODERS.iter().any(|start| plain.starts_with(start)) {
            sorted.n_text += 1;
            continue;
        }
        let found = ENDS.iter().find_map(|(end, part)| Some((name.strip_suffix(end)?, *part)));
        let Some((module, part)) = found else {
            if let Some((_, kind)) = OTHER_KINDS.iter().find(|(part, _)| name.contains(part)) {
                return Err(MergeError::Kind { tensor: name.to_owned(), kind });
            }
            unknown.push(name.to_owned());
            continue;
        };
        let is_number = matches!(tensor.dtype, Dtype::F32 | Dtype::F16 | Dtype::BF16);
        // Factors are sometimes stored as integers.
        if !(is_number || part == Part::Alpha && tensor.dtype.is_readable()) {
            return Err(MergeError::Type { tensor: name.to_owned(), found: tensor.dtype });
        }
        let module = module_name(module);
        let at = *index.entry(module.clone()).or_insert_with(|| {
            sorted.modules.push(Module { name: module, ..Module::default() });
            sorted.modules.len() - 1
        });
        let module = &mut sorted.modules[at];
        let place = match part {
            Part::Factor(end) => {
                match module.factor(end) {
                    Some(_) => unknown.push(name.to_owned()),
                    None => module.factors.push((end, tensor)),
                }
                continue;
            }
            Part::Down => &mut module.down,
            Part::Up => &mut module.up,
            Part::Mid => &mut module.mid,
            Part::Bias => &mut module.bias,
            Part::Alpha => &mut module.alpha,
            Part::Magnitude => &mut module.magnitude,
            Part::Diff => &mut module.diff,
            Part::BiasDiff => &mut module.bias_diff,
            Part::Rotation => &mut module.rotation,
            Part::Rescale => &mut module.rescale,
        };
        if place.replace(tensor).is_some() {
            unknown.push(name.to_owned());
        }
    }
    if !unknown.is_empty() {
        return Err(MergeError::Unknown { names: unknown });
    }
    let mut missing: Vec<String> = sorted.modules.iter().filter_map(missing_half).collect();
    missing.sort_unstable();
    if !missing.is_empty() {
        return Err(MergeError::Missing { names: missing });
    }
    Ok(sorted)
}

/// Removes from a module's name what diffusers added: `_lora`, and `processor` of attention
/// (`attn1.processor.to_q_lora`), up to 0.19.
fn module_name(module: &str) -> String {
    match module.strip_suffix("_lora") {
        Some(plain) if !plain.contains(".processor.") => plain.to_owned(),
        Some(plain) if plain.contains(".processor.to_") => {
            let plain = plain.replace(".processor.", ".");
            if plain.ends_with(".to_out") { plain + ".0" } else { plain }
        }
        _ => module.to_owned(),
    }
}

/// Name of a missing half of a pair, or of the pair that a factor, bias or magnitudes require.
fn missing_half(module: &Module<'_>) -> Option<String> {
    const HALVES: &[[&str; 2]] = &[["lora_A", "lora_B"], ["lora_down", "lora_up"], ["down.", "up."]];
    let is_change = module.of_weight().next().is_some() || module.bias_diff.is_some();
    // Magnitudes of products are refused by their own message.
    let needs_pair = module.bias.is_some()
        || module.mid.is_some()
        || module.magnitude.is_some() && module.factors.is_empty();
    if module.rescale.is_some() && module.rotation.is_none() {
        return Some(format!("{}.oft_blocks", module.name));
    }
    let (half, from, to) = match (module.down, module.up) {
        (Some(down), None) => (down, 0, 1),
        (None, Some(up)) => (up, 1, 0),
        (Some(_), Some(_)) => return None,
        (None, None) if is_change && !needs_pair => return None,
        (None, None) => return Some(format!("{}.lora_down.weight", module.name)),
    };
    let end = half.name.strip_prefix(&module.name).unwrap_or(&half.name);
    let other = HALVES.iter().find(|pair| end.contains(pair[from]));
    Some(other.map_or_else(String::new, |pair| half.name.replace(pair[from], pair[to])))
}

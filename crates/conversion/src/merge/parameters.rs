//! Pairs of single parameters (`target_parameters`): for a matrix or a stack of experts.
//!
//! ```text
//! A (E r, in)    row e r + k is rank k of expert e        B (out, r E)   column k E + e
//! ```
//!
//! transformers 5 keeps the experts of a layer as `gate_up_proj` (E, 2 f, in), gate above up, and `down_proj`
//! (E, out, f); files may store them this way, transposed (gpt-oss, Llama 4), or one tensor per expert.
//! Several parameters of one module are named `MODULE`, `MODULE.base_layer` and so on; their shapes tell them
//! apart.
//!
//! Products are the chain of `low_rank.rs`, as torch computes them except for matrices with fewer than 400
//! products in total.
//!
//! Source: `ParamWrapper` in `tuners/lora/layer.py` of peft 0.21.2; `conversion_mapping.py` of transformers
//! 5.23.

use gguf_checkpoint::Tensor;

use super::{
    config::Config,
    error::{MergeError, shape_error},
    low_rank::{Change, Factor},
    modules::{Module, Names},
};

/// Name component that PEFT adds for modules that are already wrapped.
const WRAPPED: &str = ".base_layer";
/// Parameters of stacks of experts that belong together: gate and up, and down.
const STACKS: &[[&str; 2]] = &[["gate_up_proj", "down_proj"], ["fc1.weight", "fc2.weight"]];
/// Names of an expert's matrices that a stack contains below each other.
const EXPERTS: &[(&str, &[&[&str]])] = &[
    ("gate_up_proj", &[&["gate_proj", "up_proj"], &["w1", "w3"]]),
    ("down_proj", &[&["down_proj"], &["w2"]]),
];

/// A tensor of the base model and its part of a pair.
pub(super) struct Place {
    pub target: String,
    pub change: Change,
}

/// Name of a module without PEFT's wrappers.
pub(super) fn unwrapped(module: &str) -> &str {
    let mut name = module;
    while let Some(inner) = name.strip_suffix(WRAPPED) {
        name = inner;
    }
    name
}

/// Tensors changed by the pair of a module, which belongs to one of its `parameters`; empty if the base model
/// has no such tensor.
pub(super) fn places(
    names: &mut Names<'_>,
    module: &Module<'_>,
    parameters: &[&str],
    config: &Config,
    scale: f64,
) -> Result<Vec<Place>, MergeError> {
    let (Some(a), Some(b)) = (module.a, module.b) else { return Ok(Vec::new()) };
    if config.use_dora || config.fan_in_fan_out || module.bias.is_some() {
        let (found, reason) =
            (parameters.join(", "), "expected only pairs for a parameter, without magnitudes or biases");
        return Err(MergeError::Unsupported { key: "target_parameters", found, reason });
    }
    let name = unwrapped(&module.name);
    let (mut found, mut mismatch): (Vec<(&str, Vec<Place>)>, Option<Tensor>) = (Vec::new(), None);
    for parameter in parameters {
        let key = format!("{name}.{parameter}");
        let pair = Pair { a, b, rank: config.rank_of(&key), scale: config.scaling_of(&key, scale) };
        match pair.places(names, name, parameter) {
            Found::Places(places) => found.push((parameter, places)),
            Found::Unfit(tensor) => mismatch = Some(tensor),
            Found::Nothing => {}
        }
    }
    match found.len() {
        0 => match mismatch {
            Some(target) => {
                let expected =
                    "a pair of (experts x rank, in) and (out, rank x experts) for a parameter of its module";
                Err(shape_error(a, expected, &target))
            }
            None => Ok(Vec::new()),
        },
        1 => Ok(found.into_iter().flat_map(|(_, places)| places).collect()),
        _ => {
            let parameters = found.iter().map(|(parameter, _)| (*parameter).to_owned()).collect();
            Err(MergeError::Ambiguous { tensor: a.name.clone(), parameters })
        }
    }
}

/// True if a module stores stacks of experts as (E, in, out). A square matrix does not show this, but both
/// stacks of the module together do: gate and up (E, in, 2 f) have twice as many columns as down (E, f, out)
/// has rows.
fn is_turned(names: &mut Names<'_>, module: &str) -> bool {
    let module = module
        .rsplit_once(".experts.")
        .map_or(module, |(before, _)| &module[..before.len() + ".experts".len()]);
    STACKS.iter().any(|[gate_up, down]| {
        let mut shape = |parameter: &&str| names.find(module, parameter).map(|tensor| tensor.shape.clone());
        match (shape(gate_up).as_deref(), shape(down).as_deref()) {
            (Some([_, n_inputs, both]), Some([_, width, n_outputs])) => {
                width.checked_mul(2) == Some(*both) && n_inputs == n_outputs
            }
            _ => false,
        }
    })
}

/// Form of a parameter in the base model.
enum Found {
    Places(Vec<Place>),
    Unfit(Tensor),
    Nothing,
}

/// The pair of a module, possibly for a certain parameter.
struct Pair<'a> {
    a: &'a Tensor,
    b: &'a Tensor,
    rank: u64,
    scale: f32,
}

impl Pair<'_> {
    /// Inputs and outputs of each matrix, if the rank covers `n_experts` matrices.
    fn dims(&self, n_experts: u64) -> Option<[u64; 2]> {
        let ([a_ranks, n_inputs], [n_outputs, b_ranks]) = (&self.a.shape[..], &self.b.shape[..]) else {
            return None;
        };
        let ranks = self.rank.checked_mul(n_experts)?;
        (*a_ranks == ranks && *b_ranks == ranks).then_some([*n_inputs, *n_outputs])
    }

    fn places(&self, names: &mut Names<'_>, module: &str, parameter: &str) -> Found {
        // Codes of gpt-oss are stored with outputs as rows, regardless of the model's layout.
        let whole = names.find(module, parameter).map(|tensor| (tensor, true));
        let whole = whole
            .or_else(|| names.find(module, &format!("{parameter}_blocks")).map(|tensor| (tensor, false)));
        let Some((target, is_plain)) = whole else { return self.experts(names, module, parameter) };
        let [outer @ .., n_rows, n_columns] = &target.shape[..] else { return Found::Unfit(target.clone()) };
        let n_experts = outer.iter().product();
        let Some([n_inputs, n_outputs]) = self.dims(n_experts).filter(|_| outer.len() <= 1) else {
            return Found::Unfit(target.clone());
        };
        let may_be_turned =
            outer.len() == 1 && (n_inputs != n_outputs || is_plain && is_turned(names, module));
        let outputs_are_rows = match [*n_rows, *n_columns] {
            shape if may_be_turned && shape == [n_inputs, n_outputs] => false,
            shape if shape == [n_outputs, n_inputs] => true,
            _ => return Found::Unfit(target.clone()),
        };
        let change = self.change([n_experts, 0], 0, outputs_are_rows, *n_rows);
        Found::Places(vec![Place { target: target.name.clone(), change }])
    }

    /// Finds experts' matrices stored as separate tensors.
    fn experts(&self, names: &mut Names<'_>, module: &str, parameter: &str) -> Found {
        let Some((_, spellings)) = EXPERTS.iter().find(|(name, _)| *name == parameter) else {
            return Found::Nothing;
        };
        let modules = [module.to_owned(), module.replace(".mlp.experts", ".block_sparse_moe.experts")];
        let first = modules
            .iter()
            .flat_map(|module| spellings.iter().map(move |parts| (module, parts)))
            .find_map(|(module, parts)| {
                let first = names.find(&format!("{module}.0.{}", parts[0]), "weight")?;
                Some((module, *parts, first))
            });
        let Some((module, parts, first)) = first else { return Found::Nothing };
        let n_experts = self.a.shape.first().map_or(0, |ranks| ranks / self.rank);
        let Some([n_inputs, n_outputs]) = self.dims(n_experts) else { return Found::Unfit(first.clone()) };
        let part_outputs = n_outputs / parts.len() as u64;
        let mut places = Vec::new();
        for expert in 0..n_experts {
            for (part, name) in (0..).zip(parts) {
                let Some(target) = names.find(&format!("{module}.{expert}.{name}"), "weight") else {
                    return Found::Unfit(first.clone());
                };
                if target.shape != [part_outputs, n_inputs] || part_outputs * parts.len() as u64 != n_outputs
                {
                    return Found::Unfit(target.clone());
                }
                let change = self.change([n_experts, expert], part * part_outputs, true, part_outputs);
                places.push(Place { target: target.name.clone(), change });
            }
        }
        // The base model must not have more experts than the pair.
        match names.find(&format!("{module}.{n_experts}.{}", parts[0]), "weight") {
            Some(target) => Found::Unfit(target.clone()),
            None => Found::Places(places),
        }
    }

    /// Change of a tensor that begins at matrix `first` and output `offset` of the pair.
    fn change(
        &self,
        [n_experts, first]: [u64; 2],
        offset: u64,
        outputs_are_rows: bool,
        matrix_rows: u64,
    ) -> Change {
        let a = Factor { first: first * self.rank, matrix_step: self.rank, ..Factor::whole(self.a, true) };
        let b = Factor { first, step: n_experts, matrix_step: 1, offset, ..Factor::whole(self.b, false) };
        let (left, right) = if outputs_are_rows { (b, a) } else { (a, b) };
        // Fits in usize: a rank is at most as long as a tensor of the file.
        Change::LowRank { left, right, rank: self.rank as usize, scale: self.scale, matrix_rows }
    }
}

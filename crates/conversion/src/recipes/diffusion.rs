//! Types of the tensors of diffusion models.
//!
//! Only matrices whose names end in `weight` are quantized, except those that the family keeps. Value
//! projections, fused projections of queries, keys and values, and down projections get more bits. Rows that
//! do not fill blocks become F16.
//!
//! Sources: `img_tensor_get_type` and the rules for image models in `tools/lcpp.patch` of
//! city96/ComfyUI-GGUF@795e451; policy `comfy` of `csrc/quantize_gguf.cpp` in hlky/libgguf@08a4336. Both
//! refuse codebook types (IQ*); our rows for these give the same roles the next larger types.

use gguf_layout::DiffusionFile;
use gguf_types::{DType, DType::*};

use super::{Assignment, Fallback, FileType as F, KeepReason, Overrides, Reason, Recipe, Role, TensorFacts};

/// Parts of tensor names by role. A name matches an entry if it contains all its parts.
const ROLES: &[(Role, &[&[&str]])] = &[
    (
        Role::Values,
        &[
            &["attn_v.weight"],
            &[".to_v.weight"],
            &[".v.weight"],
            &[".attn.w1v.weight"],
            &[".attn.w2v.weight"],
            &["_attn.v_proj.weight"],
        ],
    ),
    (Role::Fused, &[&["attn_qkv.weight"], &["attn.qkv.weight"], &["attention.qkv.weight"]]),
    (
        Role::Down,
        &[
            &["ffn_down"],
            &["experts.", ".w2.weight"],
            &[".ffn.2.weight"],
            &[".ff.net.2.weight"],
            &[".mlp.layer2.weight"],
            &[".adaln_modulation_mlp.2.weight"],
            &[".feed_forward.w2.weight"],
        ],
    ),
    // AuraFlow.
    (
        Role::DoubleDown,
        &[&["double_layers.", ".mlpX.c_proj.weight"], &["double_layers.", ".mlpC.c_proj.weight"]],
    ),
];

/// Type of a role's tensors for these file types.
struct Rule {
    role: Role,
    of: &'static [F],
    /// Limits the rule to the first tensors of the role in the file.
    first: Option<u32>,
    then: DType,
}

const fn all(role: Role, of: &'static [F], then: DType) -> Rule {
    Rule { role, of, first: None, then }
}

const fn first(n: u32, role: Role, of: &'static [F], then: DType) -> Rule {
    Rule { role, of, first: Some(n), then }
}

/// The first rule that applies decides; without one, the recipe's default is used.
const RULES: &[Rule] = &[
    all(Role::Values, &[F::Q2_K], Q3_K),
    first(2, Role::Values, &[F::Q3_K_M], Q5_K),
    all(Role::Values, &[F::Q3_K_M], Q4_K),
    all(Role::Values, &[F::Q3_K_L], Q5_K),
    first(4, Role::Values, &[F::Q4_K_S], Q5_K),
    all(Role::Values, &[F::Q4_K_M, F::Q5_K_M], Q6_K),
    all(Role::Fused, &[F::Q3_K_M, F::Q3_K_L], Q4_K),
    all(Role::Fused, &[F::Q4_K_M], Q5_K),
    all(Role::Fused, &[F::Q5_K_M], Q6_K),
    all(Role::Down, &[F::Q3_K_M], Q4_K),
    all(Role::Down, &[F::Q3_K_L, F::Q4_K_S], Q5_K),
    all(Role::Down, &[F::Q4_K_M, F::Q5_K_M], Q6_K),
    all(Role::Down, &[F::Q4_0], Q4_1),
    all(Role::Down, &[F::Q5_0], Q5_1),
    // In libgguf only.
    all(Role::DoubleDown, &[F::Q3_K_M], Q4_K),
    // Chosen by this project.
    all(Role::Values, &[F::IQ1_S, F::IQ1_M, F::IQ2_XXS, F::IQ2_XS], Q2_K),
    all(Role::Values, &[F::IQ2_S, F::IQ2_M, F::IQ3_XXS], IQ3_S),
    all(Role::Values, &[F::IQ3_S, F::IQ3_M], Q4_K),
    first(4, Role::Values, &[F::IQ4_XS, F::IQ4_NL], Q5_K),
    all(Role::Fused, &[F::IQ2_M], IQ3_S),
    all(Role::Fused, &[F::IQ3_M], Q4_K),
    all(Role::Down, &[F::IQ1_S, F::IQ1_M, F::IQ2_XXS, F::IQ2_XS], Q2_K),
    all(Role::Down, &[F::IQ2_S, F::IQ2_M, F::IQ3_XXS], IQ3_S),
    all(Role::Down, &[F::IQ3_M], Q4_K),
    all(Role::Down, &[F::IQ4_XS, F::IQ4_NL], Q5_K),
];

fn role_of(name: &str) -> Option<Role> {
    let has = |parts: &[&str]| parts.iter().all(|part| name.contains(part));
    ROLES.iter().find(|(_, entries)| entries.iter().any(|parts| has(parts))).map(|(role, _)| *role)
}

fn keep_reason(file: &DiffusionFile, tensor: &TensorFacts<'_>, overrides: &Overrides) -> Option<KeepReason> {
    let name = tensor.name;
    match tensor.shape.n_dims() {
        _ if overrides.only_copy => Some(KeepReason::Copy),
        0 | 1 => Some(KeepReason::Vector),
        2 if !name.ends_with("weight") => Some(KeepReason::NotAWeight),
        2 if overrides.leave_output && name == "output.weight" => Some(KeepReason::OutputOnRequest),
        2 if file.keeps_precision(name) => {
            Some(KeepReason::Sensitive("a layer that is sensitive to quantization"))
        }
        2 => None,
        _ => Some(KeepReason::NotAMatrix),
    }
}

/// Chooses a type for every tensor, in file order, since some rules count.
pub(super) fn assign(
    recipe: &Recipe,
    file: &DiffusionFile,
    tensors: &[TensorFacts<'_>],
    overrides: &Overrides,
) -> Vec<Assignment> {
    let mut counts = [0u32; Role::N];
    let copies = recipe.copy || overrides.only_copy;
    let overrides = &Overrides { only_copy: copies, ..overrides.clone() };
    let mut assign_one = |tensor: &TensorFacts<'_>| {
        if let Some(reason) = keep_reason(file, tensor, overrides) {
            let reason = Reason::Kept(reason);
            return Assignment { dtype: tensor.dtype, reason, fallback: None, requires_imatrix: false };
        }
        let (preferred, reason) = preferred(recipe, tensor, overrides, &mut counts);
        let row_elems = tensor.shape.row_elems();
        let fits = row_elems.is_multiple_of(preferred.block_elems());
        let dtype = if fits { preferred } else { F16 };
        let fallback = (!fits).then_some(Fallback { preferred, row_elems });
        Assignment { dtype, reason, fallback, requires_imatrix: dtype.needs_imatrix() }
    };
    tensors.iter().map(&mut assign_one).collect()
}

/// Type before checking the row length.
fn preferred(
    recipe: &Recipe,
    tensor: &TensorFacts<'_>,
    overrides: &Overrides,
    counts: &mut [u32; Role::N],
) -> (DType, Reason) {
    // Text encoders of a pipeline may have these.
    match (tensor.name, overrides.token_embedding_type, overrides.output_type) {
        ("token_embd.weight", Some(dtype), _) => return (dtype, Reason::TokenEmbeddingOption),
        ("output.weight", _, Some(dtype)) => return (dtype, Reason::OutputOption),
        _ => {}
    }
    let is_quantized = recipe.default.is_quantized();
    let pattern = overrides.tensor_types.iter().position(|entry| entry.pattern.is_match(tensor.name));
    match pattern {
        Some(index) if is_quantized || overrides.differences.tensor_types_on_floats => {
            return (overrides.tensor_types[index].dtype, Reason::TensorType(index));
        }
        _ if !is_quantized => return (recipe.default, Reason::Default),
        _ if overrides.pure => return (recipe.default, Reason::Pure),
        _ => {}
    }
    if recipe.file_type == F::MXFP4_MOE {
        // This mix names only the type of experts.
        return if tensor.name.contains("experts.") {
            (MXFP4, Reason::Role { role: Role::Expert, first: None })
        } else {
            (Q8_0, Reason::Default)
        };
    }
    let Some(role) = role_of(tensor.name) else { return (recipe.default, Reason::Default) };
    let place = counts[role as usize];
    counts[role as usize] += 1;
    let holds = |rule: &&Rule| {
        rule.role == role
            && rule.of.contains(&recipe.file_type)
            && rule.first.is_none_or(|first| place < first)
    };
    match RULES.iter().find(holds) {
        Some(rule) => (rule.then, Reason::Role { role, first: rule.first }),
        None => (recipe.default, Reason::Default),
    }
}

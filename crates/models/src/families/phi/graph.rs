//! Graphs of the models of this family.

use gguf_runtime::graphs::{Activation, Architecture, Gating, NormKind, Spec};

/// Graphs by the value of `general.architecture`.
pub const GRAPHS: &[Architecture] = &[
    Architecture::decoder(
        "phi2",
        Spec { norm: NormKind::Layer, activation: Activation::GeluTanh, ..Spec::NEOX },
    ),
    Architecture::decoder("phi3", Spec::NEOX),
    Architecture::decoder("phimoe", PHIMOE),
];

/// The reference normalizes by the root of the mean of squares and makes the weights of the two experts
/// sum to one; the models do neither.
const PHIMOE: Spec =
    Spec { norm: NormKind::Layer, gating: Gating::SparseMixer, norm_topk_prob: false, ..Spec::NEOX };

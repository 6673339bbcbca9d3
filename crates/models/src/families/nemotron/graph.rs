//! Graphs of the models of this family.

use gguf_runtime::graphs::{Activation, Architecture, Gating, NormKind, Spec};

pub const GRAPHS: &[Architecture] = &[
    Architecture::decoder(
        "nemotron",
        Spec { norm: NormKind::Layer, activation: Activation::ReluSquared, ..Spec::NEOX },
    ),
    Architecture::decoder("nemotron_h", NEMOTRON_H),
    Architecture::decoder("nemotron_h_moe", NEMOTRON_H),
];

/// Differences of `nemotron_h` and `nemotron_h_moe` from other decoders.
const NEMOTRON_H: Spec = Spec {
    takes_other_epsilon: true,
    norm_topk_prob: false,
    rope: None,
    one_part_layers: true,
    activation: Activation::ReluSquared,
    gating: Gating::Sigmoid,
    ..Spec::DECODER
};

//! Graphs of the models of this family.

use gguf_runtime::graphs::{Activation, Architecture, Gating, Spec};

pub const GRAPHS: &[Architecture] = &[
    Architecture::decoder(
        "minimax-m2",
        Spec { qk_norm_over_heads: true, gating: Gating::Sigmoid, ..Spec::NEOX },
    ),
    Architecture::decoder(
        "minimax-m3",
        Spec {
            norm_topk_prob: false,
            activation: Activation::ClampedSwish,
            gating: Gating::Sigmoid,
            ..Spec::NEOX
        },
    ),
];

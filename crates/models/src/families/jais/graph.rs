//! Graphs of the models of this family.

use gguf_runtime::graphs::{Activation, Alibi, Architecture, NormKind, ScoreScale, Spec};

pub const GRAPHS: &[Architecture] = &[
    Architecture::decoder(
        "jais",
        Spec {
            norm: NormKind::Layer,
            rope: None,
            alibi: Alibi::Key,
            score_scale: ScoreScale::InverseKeyWidth,
            ..Spec::DECODER
        },
    ),
    Architecture::decoder(
        "jais2",
        Spec { norm: NormKind::Layer, activation: Activation::ReluSquared, ..Spec::NEOX },
    ),
];

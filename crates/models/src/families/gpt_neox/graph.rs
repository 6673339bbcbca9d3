//! Graphs of the models of this family.

use gguf_runtime::graphs::{Activation, Architecture, NormKind, RopeKind, Spec};

pub const GRAPHS: &[Architecture] = &[
    Architecture::decoder(
        "gptj",
        Spec {
            norm: NormKind::Layer,
            activation: Activation::GeluTanh,
            rope: Some(RopeKind::Normal),
            ..Spec::NEOX
        },
    ),
    Architecture::decoder(
        "gptneox",
        Spec { norm: NormKind::Layer, activation: Activation::GeluErf, ..Spec::NEOX },
    ),
];

//! Graphs of the models of this family.

use gguf_runtime::graphs::{Activation, Architecture, NormKind, Spec};

pub const GRAPHS: &[Architecture] = &[
    Architecture::decoder(
        "falcon",
        Spec { norm: NormKind::Layer, activation: Activation::GeluErf, ..Spec::NEOX },
    ),
    Architecture::decoder("falcon-h1", Spec::NEOX),
];

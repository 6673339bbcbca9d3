//! Graphs of the models of this family.

use gguf_runtime::graphs::{Activation, Architecture, NormKind, Spec};

pub const GRAPHS: &[Architecture] = &[
    Architecture::decoder(
        "phi2",
        Spec { norm: NormKind::Layer, activation: Activation::GeluTanh, ..Spec::NEOX },
    ),
    Architecture::decoder("phi3", Spec::NEOX),
    Architecture::decoder("phimoe", Spec::NEOX),
];

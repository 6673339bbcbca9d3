//! Graphs of the models of this family.

use gguf_runtime::graphs::{Activation, Alibi, Architecture, NormKind, Spec};

pub const GRAPHS: &[Architecture] = &[Architecture::decoder(
    "bloom",
    Spec {
        norm: NormKind::Layer,
        rope: None,
        activation: Activation::GeluTanh,
        alibi: Alibi::Always(8.0),
        ..Spec::DECODER
    },
)];

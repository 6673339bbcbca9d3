//! Graphs of the models of this family.

use gguf_runtime::graphs::{Activation, Architecture, NormKind, Spec};

pub const GRAPHS: &[Architecture] = &[Architecture::decoder(
    "codeshell",
    Spec { norm: NormKind::Layer, activation: Activation::GeluTanh, ..Spec::NEOX },
)];

//! Graphs of the models of this family.

use gguf_runtime::graphs::{Activation, Architecture, NormKind, Spec};

pub const GRAPHS: &[Architecture] = &[Architecture::decoder(
    "gpt2",
    Spec { norm: NormKind::Layer, rope: None, activation: Activation::GeluTanh, ..Spec::DECODER },
)];

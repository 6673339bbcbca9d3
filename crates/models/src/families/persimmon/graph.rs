//! Graphs of the models of this family.

use gguf_runtime::graphs::{Activation, Architecture, NormKind, Spec};

pub const GRAPHS: &[Architecture] = &[Architecture::decoder(
    "persimmon",
    Spec { norm: NormKind::Layer, activation: Activation::ReluSquared, qkv_by_head: true, ..Spec::NEOX },
)];

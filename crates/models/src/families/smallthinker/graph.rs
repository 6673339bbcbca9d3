//! Graphs of the models of this family.

use gguf_runtime::graphs::{Activation, Architecture, RopeLayers, SlidingWindow, Spec};

pub const GRAPHS: &[Architecture] = &[Architecture::decoder(
    "smallthinker",
    Spec {
        rope_layers: RopeLayers::Sliding,
        sliding: Some(SlidingWindow { full_first: true, ..SlidingWindow::EVERY_FOURTH_FULL }),
        activation: Activation::Relu,
        routes_before_attention: true,
        ..Spec::NEOX
    },
)];

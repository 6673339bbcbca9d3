//! Graphs of the models of this family.

use gguf_runtime::graphs::{Architecture, Gating, SlidingWindow, Spec};

pub const GRAPHS: &[Architecture] = &[Architecture::decoder(
    "mimo2",
    Spec {
        sliding: Some(SlidingWindow { same_scaling: false, ..SlidingWindow::EVERY_FOURTH_FULL }),
        gating: Gating::Sigmoid,
        ..Spec::NEOX
    },
)];

//! Graphs of the models of this family.

use gguf_runtime::graphs::{Architecture, RopeLayers, SlidingWindow, Spec};

pub const GRAPHS: &[Architecture] = &[Architecture::decoder(
    "maple",
    Spec {
        rope_layers: RopeLayers::Sliding,
        bounds_argument: true,
        sliding: Some(SlidingWindow::EVERY_FOURTH_FULL),
        ..Spec::NEOX
    },
)];

//! Graphs of the models of this family.

use gguf_runtime::graphs::{Architecture, SlidingBase, SlidingWindow, Spec};

pub const GRAPHS: &[Architecture] = &[Architecture::decoder(
    "mellum",
    Spec {
        // In layers with a window, RoPE has the same base but is not scaled.
        sliding: Some(SlidingWindow {
            base: SlidingBase::Shared,
            same_scaling: false,
            ..SlidingWindow::EVERY_FOURTH_FULL
        }),
        ..Spec::NEOX
    },
)];

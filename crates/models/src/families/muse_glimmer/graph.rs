//! Graphs of the models of this family.

use gguf_runtime::graphs::{Architecture, RopeLayers, SlidingWindow, Spec};

pub const GRAPHS: &[Architecture] = &[Architecture::decoder(
    "muse-glimmer",
    Spec {
        normalizes_embedding: true,
        post_norm_epsilon: Some(1e-8),
        rope_layers: RopeLayers::Sliding,
        sliding: Some(SlidingWindow::EVERY_FOURTH_FULL),
        ..Spec::DECODER
    },
)];

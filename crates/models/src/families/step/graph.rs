//! Graphs of the models of this family.

use gguf_runtime::graphs::{Architecture, Gating, SlidingWindow, Spec};

pub const GRAPHS: &[Architecture] = &[Architecture::decoder(
    "step35",
    Spec {
        rope_part_of_full: 2,
        sliding: Some(SlidingWindow { same_scaling: false, ..SlidingWindow::EVERY_FOURTH_FULL }),
        norm_topk_prob: false,
        gating: Gating::Sigmoid,
        ..Spec::NEOX
    },
)];

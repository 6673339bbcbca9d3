//! Graphs of the models of this family.

use gguf_runtime::graphs::{Activation, Architecture, Gating, SlidingWindow, Spec};

pub const GRAPHS: &[Architecture] = &[Architecture::decoder("laguna", LAGUNA)];

/// The first of four layers uses full attention; YaRN is only for those layers.
const LAGUNA: Spec = Spec {
    attention_gate: Activation::Softplus,
    sliding: Some(SlidingWindow {
        full_first: true,
        same_scaling: false,
        ..SlidingWindow::EVERY_FOURTH_FULL
    }),
    norm_topk_prob: false,
    gating: Gating::Sigmoid,
    ..Spec::NEOX
};

//! Graphs of the models of this family.

use gguf_runtime::graphs::{Activation, Architecture, Gating, SlidingWindow, Spec};

pub const GRAPHS: &[Architecture] = &[Architecture::decoder("gpt-oss", GPT_OSS)];

/// Windows in every other layer.
const GPT_OSS: Spec = Spec {
    mlp_norm: "post_attention_norm",
    sliding: Some(SlidingWindow { period: 2, ..SlidingWindow::EVERY_FOURTH_FULL }),
    activation: Activation::ClampedSwish,
    gating: Gating::SoftmaxOfTopK,
    norm_topk_prob: false,
    ..Spec::NEOX
};

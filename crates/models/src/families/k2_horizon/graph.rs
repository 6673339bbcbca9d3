//! Graphs of the models of this family.
//!
//! Source: `llama_model_k2_horizon` of llama.cpp build 11549, which is newer than the pinned reference.

use gguf_runtime::graphs::{Activation, Architecture, Gating, Spec};

pub const GRAPHS: &[Architecture] = &[Architecture::decoder("k2-horizon", K2_HORIZON)];

const K2_HORIZON: Spec = Spec {
    attention_gate: Activation::Softplus2,
    gating: Gating::Sigmoid,
    norm_topk_prob: false,
    reads_yarn_range: true,
    ..Spec::NEOX
};

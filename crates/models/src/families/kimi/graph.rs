//! Graphs of the models of this family.

use gguf_runtime::graphs::{Architecture, Spec};

pub const GRAPHS: &[Architecture] = &[
    Architecture::decoder("kimi-k3", Spec { norm_topk_prob: false, ..WITHOUT_ROPE }),
    Architecture::decoder("kimi-linear", WITHOUT_ROPE),
];

/// Latent attention without positions.
const WITHOUT_ROPE: Spec = Spec { rope: None, ..Spec::DECODER };

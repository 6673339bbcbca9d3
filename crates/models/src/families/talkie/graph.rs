//! Graphs of the models of this family.

use gguf_runtime::graphs::{Architecture, Spec};

pub const GRAPHS: &[Architecture] = &[Architecture::decoder(
    "talkie",
    Spec {
        weightless_norms: true,
        normalizes_embedding: true,
        adds_embedding: true,
        qk_norm_after_rope: true,
        ..Spec::NEOX
    },
)];

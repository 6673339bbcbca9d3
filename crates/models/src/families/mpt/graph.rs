//! Graphs of the models of this family.

use gguf_runtime::graphs::{Activation, Alibi, Architecture, NormKind, Spec};

pub const GRAPHS: &[Architecture] = &[Architecture::decoder(
    "mpt",
    Spec {
        norm: NormKind::Layer,
        rope: None,
        activation: Activation::GeluErf,
        alibi: Alibi::Key,
        qk_norm_over_heads: true,
        ..Spec::DECODER
    },
)];

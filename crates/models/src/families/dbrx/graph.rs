//! Graphs of the models of this family.

use gguf_runtime::graphs::{Architecture, NormKind, Spec};

pub const GRAPHS: &[Architecture] = &[Architecture::decoder(
    "dbrx",
    Spec { norm: NormKind::Layer, mlp_norm: "attn_output_norm", ..Spec::NEOX },
)];

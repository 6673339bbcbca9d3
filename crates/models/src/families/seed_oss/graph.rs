//! Graphs of the models of this family.

use gguf_runtime::graphs::{Architecture, Spec};

pub const GRAPHS: &[Architecture] =
    &[Architecture::decoder("seed_oss", Spec { mlp_norm: "post_attention_norm", ..Spec::NEOX })];

//! Graphs of the models of this family.

use gguf_runtime::graphs::{Architecture, NormKind, Spec};

pub const GRAPHS: &[Architecture] =
    &[Architecture::decoder("orion", Spec { norm: NormKind::Layer, ..Spec::NEOX })];

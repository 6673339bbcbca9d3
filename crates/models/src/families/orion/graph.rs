//! Graphs of the models of this family.

use gguf_runtime::graphs::{Architecture, NormKind, Spec};

/// Graphs by the value of `general.architecture`.
pub const GRAPHS: &[Architecture] =
    &[Architecture::decoder("orion", Spec { norm: NormKind::Layer, ..Spec::NEOX })];

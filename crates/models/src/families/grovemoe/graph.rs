//! Graphs of the models of this family.

use gguf_runtime::graphs::{Architecture, Spec};

/// Graphs by the value of `general.architecture`.
pub const GRAPHS: &[Architecture] = &[Architecture::decoder("grovemoe", Spec::NEOX)];

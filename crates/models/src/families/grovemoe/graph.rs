//! Graphs of the models of this family.

use gguf_runtime::graphs::{Architecture, Spec};

pub const GRAPHS: &[Architecture] = &[Architecture::decoder("grovemoe", Spec::NEOX)];

//! Graphs of the models of this family.

use gguf_runtime::graphs::{Architecture, Spec};

/// Graphs by the value of `general.architecture`. As in llama.cpp, the activation is SiLU: a file has no key for another one, so the
/// converter warns of it.
pub const GRAPHS: &[Architecture] = &[Architecture::decoder("bitnet", Spec::NEOX)];

//! Graphs of the models of this family.

use gguf_runtime::graphs::{Architecture, Spec};

/// Graphs by the value of `general.architecture`. As in llama.cpp, the activation is SiLU. No key states a different one; the
/// converter warns if the checkpoint has one.
pub const GRAPHS: &[Architecture] = &[Architecture::decoder("bitnet", Spec::NEOX)];

//! Graphs of the models of this family.

use gguf_runtime::graphs::{Architecture, Spec};

pub const GRAPHS: &[Architecture] =
    &[Architecture::decoder("mamba", Spec::DECODER), Architecture::decoder("mamba2", Spec::DECODER)];

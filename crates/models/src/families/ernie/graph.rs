//! Graphs of the models of this family.

use gguf_runtime::graphs::{Architecture, Spec};

pub const GRAPHS: &[Architecture] =
    &[Architecture::decoder("ernie4_5", Spec::DECODER), Architecture::decoder("ernie4_5-moe", Spec::DECODER)];

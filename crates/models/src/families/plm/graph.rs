//! Graphs of the models of this family.

use gguf_runtime::graphs::{Activation, Architecture, Spec};

pub const GRAPHS: &[Architecture] =
    &[Architecture::decoder("plm", Spec { activation: Activation::ReluSquared, ..Spec::DECODER })];

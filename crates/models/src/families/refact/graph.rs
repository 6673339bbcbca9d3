//! Graphs of the models of this family.

use gguf_runtime::graphs::{Alibi, Architecture, Spec};

pub const GRAPHS: &[Architecture] =
    &[Architecture::decoder("refact", Spec { rope: None, alibi: Alibi::Always(8.0), ..Spec::DECODER })];

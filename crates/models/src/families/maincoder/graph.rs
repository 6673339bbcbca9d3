//! Graphs of the models of this family.

use gguf_runtime::graphs::{Architecture, Spec};

pub const GRAPHS: &[Architecture] =
    &[Architecture::decoder("maincoder", Spec { qk_norm_after_rope: true, ..Spec::DECODER })];

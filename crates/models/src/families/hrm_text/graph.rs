//! Graphs of the models of this family.

use gguf_runtime::graphs::{Architecture, Spec};

pub const GRAPHS: &[Architecture] =
    &[Architecture::decoder("hrm_text", Spec { weightless_norms: true, ..Spec::NEOX })];

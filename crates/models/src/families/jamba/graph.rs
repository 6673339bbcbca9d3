//! Graphs of the models of this family.

use gguf_runtime::graphs::{Architecture, Spec};

pub const GRAPHS: &[Architecture] =
    &[Architecture::decoder("jamba", Spec { rope: None, norm_topk_prob: false, ..Spec::DECODER })];

//! Graphs of the models of this family.

use gguf_runtime::graphs::{Architecture, MemorySpec, Spec};

pub const GRAPHS: &[Architecture] =
    &[Architecture::decoder("rnd1", Spec { memory: MemorySpec::NO_CACHE, ..Spec::NEOX })];

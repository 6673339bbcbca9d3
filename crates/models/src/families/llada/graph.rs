//! Graphs of the models of this family.

use gguf_runtime::graphs::{Architecture, MemorySpec, Spec};

pub const GRAPHS: &[Architecture] = &[
    Architecture::decoder("llada", Spec { memory: MemorySpec::NO_CACHE, ..Spec::DECODER }),
    Architecture::decoder(
        "llada-moe",
        Spec { norm_topk_prob: false, memory: MemorySpec::NO_CACHE, ..Spec::NEOX },
    ),
];

//! Graphs of the models of this family.

use gguf_runtime::graphs::{Architecture, MemorySpec, Spec};

pub const GRAPHS: &[Architecture] = &[
    Architecture::decoder("bailingmoe", Spec { norm_topk_prob: false, ..Spec::DECODER }),
    Architecture::decoder("bailingmoe2", Spec { norm_topk_prob: false, ..Spec::NEOX }),
    Architecture::decoder(
        "bailingmoe3",
        Spec {
            norm_topk_prob: false,
            memory: MemorySpec { caches_prediction: true, ..MemorySpec::USUAL },
            ..Spec::DECODER
        },
    ),
];

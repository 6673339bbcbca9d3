//! Graphs of the models of this family.

use gguf_runtime::graphs::{Architecture, Gating, Spec, YarnMscale};

pub const GRAPHS: &[Architecture] = &[
    Architecture::decoder("mistral3", Spec { reads_yarn_range: true, ..Spec::DECODER }),
    Architecture::decoder(
        "mistral4",
        Spec {
            norm_topk_prob: false,
            gating: Gating::OfDeepseek,
            yarn_mscale: YarnMscale::Scores,
            ..Spec::DECODER
        },
    ),
];

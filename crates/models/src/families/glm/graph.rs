//! Graphs of the models of this family.

use gguf_runtime::graphs::{Architecture, Gating, Spec, YarnMscale};

pub const GRAPHS: &[Architecture] = &[
    Architecture::decoder("chatglm", Spec::DECODER),
    Architecture::decoder(
        "glm-dsa",
        Spec {
            norm_topk_prob: false,
            gating: Gating::Sigmoid,
            yarn_mscale: YarnMscale::Scores,
            ..Spec::DECODER
        },
    ),
    Architecture::decoder("glm4", Spec::DECODER),
    Architecture::decoder(
        "glm4moe",
        Spec {
            norm_topk_prob: false,
            gating: Gating::Sigmoid,
            mlp_norm: "post_attention_norm",
            ..Spec::NEOX
        },
    ),
    Architecture::decoder(
        "glm5-next",
        Spec { rope: None, norm_topk_prob: false, bounds_argument: true, ..Spec::DECODER },
    ),
];

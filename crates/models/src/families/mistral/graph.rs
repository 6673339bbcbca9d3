//! Graphs of the models of this family.

use crate::parts::gating;
use gguf_runtime::graphs::{Architecture, Spec, YarnMscale};

pub const GRAPHS: &[Architecture] = &[
    Architecture::decoder("mistral3", Spec { reads_yarn_range: true, ..Spec::DECODER }),
    Architecture::decoder(
        "mistral4",
        Spec { norm_topk_prob: false, yarn_mscale: YarnMscale::Scores, ..Spec::DECODER },
    )
    .sized(gating::sigmoid_by_size),
];

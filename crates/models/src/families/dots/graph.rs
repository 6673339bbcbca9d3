//! Graphs of the models of this family.

use gguf_runtime::graphs::{Architecture, Gating, SlidingWindow, Spec};

pub const GRAPHS: &[Architecture] = &[
    Architecture::decoder("dots1", Spec { norm_topk_prob: false, gating: Gating::Sigmoid, ..Spec::NEOX }),
    Architecture::decoder(
        "dots3note",
        Spec { norm_topk_prob: false, sliding: Some(SlidingWindow::EVERY_FOURTH_FULL), ..Spec::DECODER },
    ),
];

//! Graphs of the models of this family.

use gguf_runtime::graphs::{Architecture, EmbeddingScale, Gating, RopeLayers, SlidingWindow, Spec};

pub const GRAPHS: &[Architecture] = &[Architecture::decoder("afmoe", AFMOE)];

/// One of every four layers has full attention and no RoPE.
const AFMOE: Spec = Spec {
    rope_layers: RopeLayers::Sliding,
    sliding: Some(SlidingWindow::EVERY_FOURTH_FULL),
    norm_topk_prob: false,
    gating: Gating::Sigmoid,
    embedding_scale: EmbeddingScale::SqrtWidth,
    ..Spec::NEOX
};

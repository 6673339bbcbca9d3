//! Graphs of the models of this family.

use gguf_runtime::graphs::{Architecture, Gating, RopeLayers, SlidingBase, SlidingWindow, Spec};

pub const GRAPHS: &[Architecture] = &[
    Architecture::decoder("exaone", Spec::NEOX),
    Architecture::decoder(
        "exaone-moe",
        Spec {
            norm_topk_prob: false,
            gating: Gating::Sigmoid,
            rope_layers: RopeLayers::Sliding,
            sliding: Some(SlidingWindow {
                window: Some(128),
                base: SlidingBase::Shared,
                ..SlidingWindow::EVERY_FOURTH_FULL
            }),
            ..Spec::NEOX
        },
    ),
    Architecture::decoder("exaone4", EXAONE4),
];

/// 64 layers are EXAONE 4.0 32B; the 1.2B, of 30 layers, has no windows.
const EXAONE4: Spec = Spec {
    rope_layers: RopeLayers::Sliding,
    sliding: Some(SlidingWindow {
        window: Some(4096),
        base: SlidingBase::Shared,
        only_with_layers: Some(64),
        ..SlidingWindow::EVERY_FOURTH_FULL
    }),
    ..Spec::NEOX
};

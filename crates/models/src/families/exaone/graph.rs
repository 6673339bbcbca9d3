//! Graphs of the models of this family.

use gguf_runtime::graphs::{Architecture, Gating, RopeLayers, Size, SlidingBase, SlidingWindow, Spec};

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
    Architecture::decoder("exaone4", EXAONE4).sized(exaone4),
];

/// Differences of `exaone4` from other decoders.
const EXAONE4: Spec = Spec {
    rope_layers: RopeLayers::Sliding,
    sliding: Some(SlidingWindow {
        window: Some(4096),
        base: SlidingBase::Shared,
        ..SlidingWindow::EVERY_FOURTH_FULL
    }),
    ..Spec::NEOX
};

/// 64 layers are EXAONE 4.0 32B; the 1.2B, of 30 layers, has no windows. llama.cpp asks for the number even if the file states a
/// pattern.
fn exaone4(size: Size, spec: Spec) -> Spec {
    if size.n_layer == 64 { spec } else { Spec { sliding: None, ..spec } }
}

//! Graphs of the models of this family.

use gguf_runtime::graphs::{Architecture, NormKind, SlidingBase, SlidingWindow, Spec};

pub const GRAPHS: &[Architecture] = &[
    Architecture::decoder("olmo", OLMO),
    Architecture::decoder("olmo2", OLMO2),
    Architecture::decoder("olmoe", Spec { qk_norm_over_heads: true, norm_topk_prob: false, ..Spec::NEOX }),
];

/// Layer norms without weights.
const OLMO: Spec = Spec { norm: NormKind::Layer, weightless_norms: true, ..Spec::DECODER };

/// OLMo 2 has no windows; OLMo 3, written under the same name, has, with RoPE unscaled there.
const OLMO2: Spec = Spec {
    qk_norm_over_heads: true,
    sliding: Some(SlidingWindow {
        base: SlidingBase::Shared,
        same_scaling: false,
        ..SlidingWindow::EVERY_FOURTH_FULL
    }),
    ..Spec::NEOX
};

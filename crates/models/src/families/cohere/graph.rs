//! Graphs of the models of this family.

use gguf_runtime::graphs::{Architecture, Gating, NormKind, RopeLayers, SlidingBase, SlidingWindow, Spec};

pub const GRAPHS: &[Architecture] = &[
    Architecture::decoder("cohere2", COHERE2),
    Architecture::decoder("cohere2moe", COHERE2_MOE),
    Architecture::decoder("command-r", COMMAND_R),
];

/// Differences of `command-r` from other decoders.
const COMMAND_R: Spec = Spec { norm: NormKind::Layer, ..Spec::DECODER };

/// RoPE only in layers with a window; those that use full attention have no positions.
const COHERE2: Spec =
    Spec { rope_layers: RopeLayers::Sliding, sliding: Some(SlidingWindow::EVERY_FOURTH_FULL), ..COMMAND_R };

/// Experts and shared expert are averaged, as `shared_expert_combination_strategy` of its config has it.
const COHERE2_MOE: Spec = Spec {
    norm_is_by_key: true,
    norm_topk_prob: false,
    rope_layers: RopeLayers::SlidingOrDense,
    sliding: Some(SlidingWindow {
        full_first: true,
        base: SlidingBase::Shared,
        ..SlidingWindow::EVERY_FOURTH_FULL
    }),
    gating: Gating::Sigmoid,
    shared_experts_scale: 0.5,
    ..COMMAND_R
};

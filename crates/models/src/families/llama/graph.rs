//! Graphs of the models of this family.

use gguf_runtime::graphs::{Architecture, Gating, RopeLayers, Size, SlidingWindow, Spec, Temperature};

pub const GRAPHS: &[Architecture] = &[
    Architecture::decoder("llama", Spec::DECODER),
    Architecture::decoder("llama-embed", Spec { has_lm_head: false, is_causal: false, ..Spec::DECODER }),
    Architecture::decoder("llama4", LLAMA4).sized(llama4),
];

/// Layers without RoPE use full attention and have the temperature (`attn_scale` 0.1, `floor_scale` 8192).
const LLAMA4: Spec = Spec {
    rope_layers: RopeLayers::Sliding,
    post_rope_norm: true,
    temperature: Some(Temperature { scale: 0.1, length: 8192.0, offset: 1.0 }),
    sliding: Some(SlidingWindow { window: Some(8192), chunked: true, ..SlidingWindow::EVERY_FOURTH_FULL }),
    gating: Gating::Sigmoid,
    norm_topk_prob: false,
    scale_expert_input: true,
    ..Spec::DECODER
};

/// 128 experts are Llama 4 Maverick, whose `use_qk_norm` is false; Scout, of 16, has the norm.
fn llama4(size: Size, spec: Spec) -> Spec {
    Spec { post_rope_norm: size.n_experts != 128, ..spec }
}

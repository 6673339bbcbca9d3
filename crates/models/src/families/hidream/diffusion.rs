//! Recognition of checkpoints, and their tensors that keep a high precision.

use gguf_layout::Diffusion;

/// HiDream-I1.
pub const HIDREAM: Diffusion = Diffusion {
    name: "hidream",
    models: "HiDream-I1",
    order: 70,
    detect: &[&[
        "caption_projection.0.linear.weight",
        "double_stream_blocks.0.block.ff_i.shared_experts.w3.weight",
    ]],
    kept_f32: &[".ff_i.gate.weight", "img_emb.emb_pos"],
    unquantized: &[
        "p_embedder.",
        "t_embedder.",
        "x_embedder.",
        "final_layer.",
        ".ff_i.gate.weight",
        "caption_projection.",
    ],
    ends: &[&["x_embedder."], &["caption_projection."], &["final_layer."]],
    parts: &["single_stream_blocks"],
    classes: &["HiDreamImageTransformer2DModel"],
    ..Diffusion::EMPTY
};

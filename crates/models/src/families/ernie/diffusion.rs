//! Recognition of checkpoints, and their tensors that keep a high precision.

use gguf_layout::Diffusion;

/// ERNIE-Image.
///
/// Source: `ImageArch.zig` of qskousen/ggufy@07c55c0.
pub const ERNIE_IMAGE: Diffusion = Diffusion {
    name: "ernie",
    models: "ERNIE-Image",
    order: 160,
    detect: &[&[
        "adaLN_modulation.1.weight",
        "x_embedder.proj.weight",
        "text_proj.weight",
        "layers.0.mlp.linear_fc2.weight",
    ]],
    loads: false,
    ends: &[&["x_embedder."], &["text_proj."], &["final_linear.", "final_layer."]],
    parts: &["layers", "time_embedding", "time_proj", "final_norm", "pos_embed"],
    classes: &["ErnieImageTransformer2DModel"],
    ..Diffusion::EMPTY
};

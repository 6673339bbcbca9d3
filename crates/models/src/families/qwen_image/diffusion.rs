//! Recognition of checkpoints, and their tensors that keep a high precision.

use gguf_layout::Diffusion;

/// Qwen-Image and Qwen-Image-Edit.
///
/// Source: `ImageArch.zig` of qskousen/ggufy@07c55c0. The parts that are not quantized are those of Mage-Flow.
pub const QWEN_IMAGE: Diffusion = Diffusion {
    name: "qwen_image",
    models: "Qwen-Image and Qwen-Image-Edit",
    order: 20,
    detect: &[&[
        "time_text_embed.timestep_embedder.linear_2.weight",
        "transformer_blocks.0.attn.norm_added_q.weight",
        "transformer_blocks.0.img_mlp.net.0.proj.weight",
    ]],
    unquantized: &["img_in.", "txt_in.", "txt_norm.", "time_text_embed.", "norm_out.", "proj_out."],
    ends: &[&["img_in."], &["txt_in."], &["proj_out."]],
    classes: &["QwenImageTransformer2DModel"],
    ..Diffusion::EMPTY
};

/// Mage-Flow.
///
/// Source: `ImageArch.zig` of qskousen/ggufy@07c55c0.
pub const MAGE_FLOW: Diffusion = Diffusion {
    name: "mage_flow",
    models: "Mage-Flow",
    order: 10,
    detect: &[&[
        "time_text_embed.timestep_embedder.linear_2.weight",
        "transformer_blocks.0.attn.norm_added_q.weight",
        "transformer_blocks.0.img_mlp.net.0.proj.weight",
        "txt_norm.weight",
        "proj_out.weight",
    ]],
    extents: &[("txt_norm.weight", 2560), ("proj_out.weight", 128)],
    unquantized: &[
        "txt_norm.weight",
        "img_in.",
        "txt_in.",
        "proj_out.",
        "norm_out.linear",
        "time_text_embed",
    ],
    loads: false,
    ends: &[&["img_in."], &["txt_in."], &["proj_out."]],
    ..Diffusion::EMPTY
};

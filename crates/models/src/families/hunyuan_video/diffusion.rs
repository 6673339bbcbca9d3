//! Recognition of checkpoints, and their tensors that keep a high precision.

use gguf_layout::Diffusion;

use super::{adapter_names, diffusers_names};

/// HunyuanVideo.
pub const HYVID: Diffusion = Diffusion {
    name: "hyvid",
    models: "HunyuanVideo",
    order: 120,
    detect: &[&[
        "double_blocks.0.img_attn_proj.weight",
        "txt_in.individual_token_refiner.blocks.1.self_attn_qkv.weight",
    ]],
    unquantized: &["txt_in.", "img_in.", "time_in.", "vector_in.", "guidance_in.", "final_layer."],
    five_dims: true,
    adapter_names: &[adapter_names::HUNYUAN_VIDEO],
    diffusers_names: diffusers_names::HUNYUAN_VIDEO,
    ..Diffusion::EMPTY
};

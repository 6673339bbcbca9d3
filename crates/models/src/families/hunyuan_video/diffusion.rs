//! Recognition of checkpoints, and their tensors that keep a high precision.

use gguf_layout::Diffusion;

use super::{adapter_names, diffusers_names};

/// HunyuanVideo.
pub const HYVID: Diffusion = Diffusion {
    name: "hyvid",
    models: "HunyuanVideo",
    order: 34,
    detect: &[&[
        "double_blocks.0.img_attn_proj.weight",
        "txt_in.individual_token_refiner.blocks.1.self_attn_qkv.weight",
    ]],
    unquantized: &["txt_in.", "img_in.", "time_in.", "vector_in.", "guidance_in.", "final_layer."],
    five_dims: true,
    adapter_names: &[adapter_names::HUNYUAN_VIDEO],
    diffusers_names: diffusers_names::HUNYUAN_VIDEO,
    ends: &[&["img_in."], &["txt_in."], &["final_layer."]],
    parts: &["double_blocks", "single_blocks", "byt5_in", "time_r_in", "vision_in", "cond_type_embedding"],
    classes: &[
        "HunyuanVideoTransformer3DModel",
        "HunyuanVideoFramepackTransformer3DModel",
        "HunyuanVideo15Transformer3DModel",
        "HunyuanImageTransformer2DModel",
    ],
    ..Diffusion::EMPTY
};

/// The names that ComfyUI gives to the same tensors, which are those of Flux, and models of 2025 that are published under them.
///
/// Source: `detect_unet_config` in `comfy/model_detection.py` of ComfyUI.
pub const HYVID_OF_COMFYUI: Diffusion = Diffusion {
    models: "HunyuanVideo saved by ComfyUI, HunyuanVideo 1.5 and HunyuanImage 2.1",
    order: 35,
    detect: &[&[
        "double_blocks.0.img_attn.proj.weight",
        "txt_in.individual_token_refiner.blocks.0.norm1.weight",
    ]],
    // HunyuanImage has none.
    five_dims: false,
    adapter_names: &[crate::families::flux::adapter_names::FLUX],
    diffusers_names: &[],
    ..HYVID
};

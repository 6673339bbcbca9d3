//! Recognition of checkpoints, and their tensors that keep a high precision.

use gguf_layout::Diffusion;

use super::{adapter_names, diffusers_names};

/// Flux.1, Flux.1 Kontext, Flux.2 and Chroma.
pub const FLUX: Diffusion = Diffusion {
    name: "flux",
    models: "Flux.1, Flux.1 Kontext, Flux.2 and Chroma",
    order: 40,
    detect: &[&["transformer_blocks.0.attn.norm_added_k.weight"], &["double_blocks.0.img_attn.proj.weight"]],
    refused: &["transformer_blocks.0.attn.norm_added_k.weight"],
    unquantized: &["txt_in.", "img_in.", "time_in.", "vector_in.", "guidance_in.", "final_layer."],
    adapter_names: &[adapter_names::FLUX],
    diffusers_names: diffusers_names::FLUX,
    ends: &[&["img_in"], &["txt_in."], &["final_layer"]],
    parts: &[
        "img_in_patch",
        "nerf_blocks",
        "nerf_image_embedder",
        "nerf_final_layer",
        "nerf_final_layer_conv",
        "double_stream_modulation_img",
        "double_stream_modulation_txt",
        "single_stream_modulation",
    ],
    classes: &["FluxTransformer2DModel", "Flux2Transformer2DModel", "ChromaTransformer2DModel"],
    ..Diffusion::EMPTY
};
